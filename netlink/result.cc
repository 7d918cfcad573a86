#include "netlink/result.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include <system_error>

namespace ipvsproxier::netlink {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::already:
      return "already there";
    case ErrorKind::missing:
      return "missing";
    case ErrorKind::busy:
      return "busy";
    case ErrorKind::overrun:
      return "answers lost";
    case ErrorKind::denied:
      return "denied";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::malformed:
      return "malformed";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::io:
      return "failed";
  }
  return "failed";
}

std::string to_string(const Error& error) {
  if (error.sys_errno == 0) return fmt::format("{} ({})", error.where, to_string(error.kind));
  return fmt::format("{}: {} ({})", error.where, std::generic_category().message(error.sys_errno),
                     to_string(error.kind));
}

namespace {

ErrorKind generic_kind(int sys_errno) {
  switch (sys_errno) {
    case EEXIST:
      return ErrorKind::already;
    case ENOENT:
    case ESRCH:
    case ENODEV:
    case ENXIO:
      return ErrorKind::missing;
    case EBUSY:
    case EAGAIN:
    case EINTR:
      return ErrorKind::busy;
    case ENOBUFS:
      return ErrorKind::overrun;
    case EPERM:
    case EACCES:
      return ErrorKind::denied;
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
    case ENOPROTOOPT:
      return ErrorKind::unsupported;
    case EINVAL:
    case EMSGSIZE:
    case ERANGE:
    case EBADMSG:
      return ErrorKind::malformed;
    case ETIMEDOUT:
      return ErrorKind::timeout;
    default:
      return ErrorKind::io;
  }
}

}  // namespace

ErrorKind kind_of(Operation operation, int sys_errno) {
  // net/ipv4/devinet.c and net/ipv6/addrconf.c answer EADDRNOTAVAIL to the removal of an absent
  // address; ip_vs_ctl.c answers ESRCH to an absent service and ENOENT to an absent server.
  if (operation == Operation::address && sys_errno == EADDRNOTAVAIL) return ErrorKind::missing;
  // nfnetlink.c: another generation than the transaction wants. nf_tables_api.c: verdicts that go
  // in circles, or too deep.
  if (operation == Operation::nftables) {
    if (sys_errno == ERESTART) return ErrorKind::busy;
    if (sys_errno == ELOOP || sys_errno == EMLINK) return ErrorKind::malformed;
  }
  return generic_kind(sys_errno);
}

Error make_error(Operation operation, int sys_errno, std::string where) {
  return Error{kind_of(operation, sys_errno), sys_errno, std::move(where)};
}

bool timed_out(std::span<const Status> outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const Status& outcome) {
    return !outcome && outcome.error().kind == ErrorKind::timeout;
  });
}

Error not_sent() {
  return Error{ErrorKind::timeout, ETIMEDOUT, "not sent after a timeout"};
}

Error malformed(std::string where) {
  return make_error(Operation::generic, EBADMSG, std::move(where));
}

}  // namespace ipvsproxier::netlink

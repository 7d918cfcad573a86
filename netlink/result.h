#pragma once

// Error, Result<T> and Status: the results of all fallible calls in this project.
//
// Errors are values. A failed kernel operation reports the kind of the failure (callers decide
// without knowing errno), the positive errno, and a text that says where it happened. Values; any
// thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tl/expected.hpp>

namespace ipvsproxier::netlink {

enum class ErrorKind : std::uint8_t {
  already,      // the thing exists
  missing,      // the thing, or something that it needs (a module, a scheduler), does not exist
  busy,         // in use; try again
  overrun,      // answers were lost (ENOBUFS): the kernel's state must be read again
  denied,       // a privilege is missing
  unsupported,  // this kernel cannot do it
  malformed,    // bytes or arguments that make no sense, from us (EINVAL) or to us
  timeout,      // no answer in time
  io,           // anything else
};

std::string_view to_string(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::io;
  int sys_errno = 0;  // positive; 0 if no system call failed
  std::string where;  // "what was tried: what went wrong", with the kernel's extended text

  friend bool operator==(const Error&, const Error&) = default;
};

// "where: strerror (kind)", one line.
std::string to_string(const Error& error);

// The attempted operation: one errno means different things for different operations. The IPVS rows
// are from net/netfilter/ipvs/ip_vs_ctl.c (Linux 6.1), the others from the sources of their
// subsystems.
enum class Operation : std::uint8_t {
  generic,
  ipvs_service,
  ipvs_server,
  address,
  link,
  route,
  set,
  rule,
  nftables
};

// The one table from (operation, errno) to ErrorKind. `sys_errno` is positive.
ErrorKind kind_of(Operation operation, int sys_errno);

// An Error with this errno; kind_of() gives its kind.
Error make_error(Operation operation, int sys_errno, std::string where);

// EBADMSG: the bytes from the kernel make no sense.
Error malformed(std::string where);

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result() = delete;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
  Result(tl::expected<T, Error> other) : tl::expected<T, Error>(std::move(other)) {}
};

class [[nodiscard]] Status : public tl::expected<void, Error> {
 public:
  Status() = default;
  Status(Error error) : tl::expected<void, Error>(tl::unexpect, std::move(error)) {}
  Status(tl::expected<void, Error> other) : tl::expected<void, Error>(std::move(other)) {}
};

// Whether one of the outcomes is a timeout. Callers then stop using that table for now: each
// further request would wait as long again. The remaining requests get the outcome not_sent(),
// which is also a timeout.
bool timed_out(std::span<const Status> outcomes);
Error not_sent();

}  // namespace ipvsproxier::netlink

#include "ipset/sets/set_resolver.h"

#include <netinet/in.h>
#include <sys/socket.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter.h>
#include <linux/netfilter/ipset/ip_set.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::make_error;
using netlink::Operation;
using netlink::Result;
using netlink::Status;

namespace {

template <typename Request>
bool ask(int fd, Request& request) {
  socklen_t size = sizeof request;
  return ::getsockopt(fd, SOL_IP, SO_IP_SET, &request, &size) == 0 && size == sizeof request;
}

}  // namespace

Status KernelSetResolver::open() {
  if (fd_) return {};
  netlink::UniqueFd fd(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd)
    return make_error(Operation::rule, errno,
                      "open a raw socket to ask for sets (CAP_NET_RAW is needed)");
  ip_set_req_version request{.op = IP_SET_OP_VERSION, .version = 0};
  if (!ask(fd.get(), request))
    return make_error(Operation::rule, errno,
                      "ask for the version of IP sets (CAP_NET_ADMIN and the module ip_set are "
                      "needed)");
  fd_ = std::move(fd);
  version_ = request.version;
  return {};
}

Result<std::uint16_t> KernelSetResolver::index_of(const std::string& name, Family family) {
  if (const auto found = indexes_.find(name); found != indexes_.end()) return found->second;
  if (auto status = open(); !status) return status.error();
  if (name.empty() || name.size() >= IPSET_MAXNAMELEN)
    return Error{.kind = ErrorKind::malformed, .where = "name of a set: 1 to 31 bytes: " + name};

  ip_set_req_get_set_family request{};
  request.op = IP_SET_OP_GET_FNAME;
  request.version = version_;
  name.copy(request.set.name, IPSET_MAXNAMELEN - 1);
  if (!ask(fd_.get(), request)) return make_error(Operation::rule, errno, "find the set " + name);
  if (request.set.index == IPSET_INVALID_ID)
    return Error{.kind = ErrorKind::missing,
                 .where = fmt::format("the set {} does not exist", name)};
  // A bitmap has no family. For a set of the other family xt_set would answer only EINVAL.
  const unsigned wanted = family == Family::ipv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
  if (request.family != NFPROTO_UNSPEC && request.family != wanted)
    return Error{.kind = ErrorKind::malformed,
                 .where = fmt::format("the set {} is not of {}", name, to_string(family))};
  indexes_[name] = request.set.index;
  return request.set.index;
}

std::optional<std::string> KernelSetResolver::name_of(std::uint16_t index) {
  if (const auto found = names_.find(index); found != names_.end()) return found->second;
  if (!open()) return std::nullopt;
  ip_set_req_get_set request{};
  request.op = IP_SET_OP_GET_BYINDEX;
  request.version = version_;
  request.set.index = index;
  if (!ask(fd_.get(), request)) return std::nullopt;
  std::string name(request.set.name, strnlen(request.set.name, IPSET_MAXNAMELEN));
  if (name.empty()) return std::nullopt;
  names_[index] = name;
  return name;
}

}  // namespace ipvsproxier::ipset

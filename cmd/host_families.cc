#include "cmd/host_families.h"

#include <fmt/format.h>

#include "netlink/sysctl.h"

namespace ipvsproxier::cmd {

namespace {

using netlink::ErrorKind;
using netlink::Family;

// Other errors are temporary or lack of privilege: they are reported at use.
bool is_lacking(const netlink::Status& usable) {
  return !usable && (usable.error().kind == ErrorKind::missing ||
                     usable.error().kind == ErrorKind::unsupported);
}

HostFamilies without(Family family, const std::string& reason) {
  return {{family == Family::ipv4 ? Family::ipv6 : Family::ipv4},
          fmt::format("{} is left out: {}", netlink::to_string(family), reason)};
}

}  // namespace

HostFamilies supported_families(const std::function<netlink::Status(Family)>& usable,
                                const std::filesystem::path& proc) {
  const auto ipv4 = usable(Family::ipv4);
  std::error_code ignored;
  if (!std::filesystem::exists(proc / "net/if_inet6", ignored))
    return without(Family::ipv6, "this kernel has no IPv6");
  if (netlink::ipv6_is_disabled(proc / "sys"))
    return without(Family::ipv6, "it is disabled on all links (net/ipv6/conf/*/disable_ipv6)");
  const auto ipv6 = usable(Family::ipv6);
  if (is_lacking(ipv6) && ipv4) return without(Family::ipv6, netlink::to_string(ipv6.error()));
  if (is_lacking(ipv4) && ipv6) return without(Family::ipv4, netlink::to_string(ipv4.error()));
  return {{Family::ipv4, Family::ipv6}, ""};
}

}  // namespace ipvsproxier::cmd

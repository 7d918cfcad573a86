#pragma once

// The IP families that this host can proxy.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::cmd {

struct HostFamilies {
  std::vector<netlink::Family> families;
  std::string left_out;  // "IPv6 is left out: REASON"; "" if no family is
};

// IPv4, and IPv6 if the kernel has it and it is not disabled. A family whose packet filter the
// kernel lacks is left out if the other family's works. `usable` tests the packet filter of a
// family and loads its modules: it is called for each of these families now, because the privilege
// to load modules may be dropped later. `proc` is /proc.
HostFamilies supported_families(const std::function<netlink::Status(netlink::Family)>& usable,
                                const std::filesystem::path& proc);

}  // namespace ipvsproxier::cmd

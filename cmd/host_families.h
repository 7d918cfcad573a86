#pragma once

// Which families this host can proxy.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::cmd {

struct HostFamilies {
  std::vector<netlink::Family> families;
  std::string left_out;  // "IPv6 is left out: REASON"; "" if none is
};

// IPv4, and IPv6 where the kernel has it and it is not disabled; one whose packet filter the kernel
// lacks is left out if the other's is there. `usable` answers whether the packet filter of a family
// can be used; it is asked for both in any case, as it loads modules: later there may be no
// privilege to do so. `proc` is /proc.
HostFamilies supported_families(const std::function<netlink::Status(netlink::Family)>& usable,
                                const std::filesystem::path& proc);

}  // namespace ipvsproxier::cmd

#pragma once

// Switches of IPVS, below net/ipv4/vs, that only later kernels have: the texts of their flags.
// Pure.
//
// All belong to the network namespace of the daemon, that of the node, and hold for all its virtual
// services. Sources: Documentation/networking/ipvs-sysctl.rst, net/netfilter/ipvs/ip_vs_ctl.c and
// ip_vs_est.c (Linux 7.3); what they take and which namespace they belong to was tried on 7.3.4.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ipvsproxier::cmd {

// Values by name, as the kernel prints them.
using IpvsSwitches = std::map<std::string, std::string>;

// A number within these bounds, or "": left alone. Returns a description of a mistake, or "".
struct NumberSwitch {
  std::string name;
  std::int64_t least = 0;
  std::int64_t most = 0;
};
std::string set_switch(const NumberSwitch& number, std::string_view text, IpvsSwitches& switches);

// est_cpulist: "0-3,8", or "": left alone. The same as above.
std::string set_est_cpulist(std::string_view text, IpvsSwitches& switches);

}  // namespace ipvsproxier::cmd

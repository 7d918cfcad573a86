#pragma once

// Which packet filter the daemon of a kernel test uses. IPVS_PROXIER_PACKET_FILTER is `iptables` or
// `nftables`: the value of --packet-filter for each Daemon whose flags have none. Without it the
// daemon chooses: nf_tables wherever the kernel has its family ip.

#include <cstdlib>
#include <optional>
#include <string>

namespace ipvsproxier::test {

inline std::optional<std::string> asked_packet_filter() {
  const char* text = std::getenv("IPVS_PROXIER_PACKET_FILTER");
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

// What only one packet filter does is to be asked of that one.
inline bool on_nftables() {
  return asked_packet_filter() == "nftables";
}

}  // namespace ipvsproxier::test

#include "netlink/conntrack/conntrack_types.h"

#include <fmt/format.h>

namespace ipvsproxier::netlink {

std::string to_string(const UdpFlow& flow) {
  return fmt::format("UDP flow {} -> {}", to_string(flow.source.address, flow.source.port),
                     to_string(flow.destination.address, flow.destination.port));
}

}  // namespace ipvsproxier::netlink

#pragma once

// Links, addresses and routes of a network namespace, set up over rtnetlink: what `ip` does,
// without starting a process for each namespace, which takes a tenth of a second in a guest. Every
// failure throws std::runtime_error.

#include <string>

#include "netlink/nl_channel.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::test {

class NetSetup {
 public:
  // For links of this namespace. The calling thread stays where it is.
  explicit NetSetup(const Netns& netns);

  void bridge(const std::string& name);
  // A pair with its other end in another namespace; both ends are up.
  void veth(const std::string& name, const Netns& peer_netns, const std::string& peer_name);
  void up(const std::string& link);
  void down(const std::string& link);
  // With its addresses.
  void remove(const std::string& link);
  // Makes a link a port of a bridge. In hairpin mode a packet may leave by the port it came from.
  void enslave(const std::string& link, const std::string& bridge, bool hairpin);
  // "10.0.0.1/24"; IPv6 without duplicate address detection, usable at once.
  void address(const std::string& link, const std::string& prefix);
  void remove_address(const std::string& link, const std::string& prefix);
  // "10.0.0.0/8 via 10.1.0.1": destination (0.0.0.0/0, ::/0 for the default) and gateway.
  void route(const std::string& destination, const std::string& gateway);

 private:
  std::uint32_t index_of(const std::string& link) const;
  netlink::MessageWriter address_message(std::uint16_t type, std::uint16_t flags,
                                         const std::string& link, const std::string& prefix) const;
  void request(const std::string& what, netlink::MessageWriter message);

  const Netns& netns_;
  netlink::NlChannel channel_;
};

}  // namespace ipvsproxier::test

#pragma once

// What rules ask of a node beside the packet. The defaults know nothing. Whoever judges packets
// says what is known; any thread.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/judge/answer.h"
#include "ipset/judge/packet.h"
#include "ipset/sets/set_codec.h"
#include "ipset/sets/set_types.h"

namespace ipvsproxier::ipset {

class NodeFacts {
 public:
  using Limit = AddressTypeCondition::Limit;

  NodeFacts() = default;
  NodeFacts(const NodeFacts&) = default;
  NodeFacts& operator=(const NodeFacts&) = default;
  virtual ~NodeFacts() = default;

  // Whether that address of the packet is one of this node; with a limit, one of that link.
  virtual Answer is_local(const Packet& /*packet*/, Direction /*direction*/,
                          Limit /*limit*/) const {
    return Answer::unknown;
  }
  virtual Answer is_broadcast(const netlink::IpAddress& /*address*/) const {
    return Answer::unknown;
  }
  virtual std::optional<std::uint32_t> link_index(const std::string& /*name*/) const {
    return std::nullopt;
  }
  // The elements of a set that rules of iptables or our rules of nf_tables look up; nullptr: not
  // known. A set of type hash:net is one of `nets`.
  virtual const std::set<Element>* set(const std::string& /*name*/) const { return nullptr; }
  virtual const std::vector<NetMember>* nets(const std::string& /*name*/) const { return nullptr; }
};

}  // namespace ipvsproxier::ipset

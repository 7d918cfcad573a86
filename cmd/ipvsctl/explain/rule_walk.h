#pragma once

// Takes a packet through the chains of the node that was read, by the engine of ipset/judge. Pure
// except for `is_local`; any thread.
//
// A rule with an unknown condition (time, chance, an unreadable set) or an unknown action cannot be
// judged if its other parts match: it is recorded and taken as not matching. Rules without effect
// on the packet (LOG) are skipped.

#include <functional>
#include <optional>
#include <string>

#include "cmd/ipvsctl/explain/packet.h"
#include "ipset/judge/chain_walk.h"
#include "ipset/judge/node_facts.h"

namespace ipvsproxier::ctl {

using ipset::Answer;
using ipset::ChainEnd;
using ipset::ChainWalk;

// Whether an address is local to this host, as the kernel's addrtype match sees it.
using IsLocal = std::function<bool(const netlink::IpAddress&)>;

// What was read, and the routes. Keeps references.
class ReadFacts final : public ipset::NodeFacts {
 public:
  ReadFacts(const NodeReading& node, const IsLocal& is_local) : node_(node), is_local_(is_local) {}

  Answer is_local(const Packet& packet, ipset::Direction direction, Limit limit) const override;
  Answer is_broadcast(const netlink::IpAddress& address) const override;
  std::optional<std::uint32_t> link_index(const std::string& name) const override;
  const std::set<ipset::Element>* set(const std::string& name) const override;
  const std::vector<ipset::NetMember>* nets(const std::string& name) const override;

 private:
  const NodeReading& node_;
  const IsLocal& is_local_;
};

// Changes the packet's marks and tracking as the rules do. A chain that does not exist accepts.
ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local);

// The same for a chain of another table of nf_tables ("inet filter"), whose rules are judged as the
// kernel has them (ipset/judge/nft_judge.h). In our own table that is done with rules that are not
// ours.
ChainWalk walk_nft_chain(const NodeReading& node, const std::string& table,
                         const std::string& chain, Packet& packet, const IsLocal& is_local);

}  // namespace ipvsproxier::ctl

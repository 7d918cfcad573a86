#pragma once

// Takes a packet through the chains of netfilter's hooks, in the order of their priorities: those
// of iptables, those of our table of nf_tables, and those of other tables of nf_tables. Of chains
// of one priority those of nf_tables come last; the kernel has the newest first, and where both may
// translate the packet it is said that the order is not known. Any thread.
//
// Chains of type nat stand at one place of a hook, whatever their priorities, which order them
// among themselves; those behind one that translates, or settles that nothing is translated, do not
// see the packet (nf_nat_register_fn(), nf_nat_inet_fn() in net/netfilter/nf_nat_core.c, 6.1).

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cmd/ipvsctl/explain/packet_walk.h"
#include "cmd/ipvsctl/explain/rule_walk.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ctl {

// A packet, what was noted of its way, and its end so far.
struct OnItsWay {
  Packet& packet;
  std::vector<WalkStep>& steps;
  Arrival& arrival;
};

void note_step(std::vector<WalkStep>& steps, std::string stage, std::string text,
               bool decides = false);

// Ends the packet's way there.
void lose(std::vector<WalkStep>& steps, Arrival& arrival, const char* stage, Notice notice,
          const std::string& why);

class HookPass {
 public:
  // Keeps references.
  HookPass(const NodeReading& node, IsLocal is_local)
      : node_(node), is_local_(std::move(is_local)) {}

  // Each of these is false if the packet ended there; `arrival` then has the result.
  bool prerouting(OnItsWay way);
  bool input(OnItsWay way);       // up to IPVS
  bool input_rest(OnItsWay way);  // what IPVS does not take, or has for a server on this host
  // A packet of this host to itself, over lo: its nat is settled.
  bool prerouting_again(OnItsWay way);
  bool input_again(OnItsWay way);
  bool forward(OnItsWay way);
  bool output(OnItsWay way);       // up to IPVS
  bool output_rest(OnItsWay way);  // what IPVS does not take, or has for a server on this host
  bool output_of_ipvs(OnItsWay way);
  bool postrouting_before_nat(OnItsWay way);
  bool postrouting_nat(OnItsWay way);
  bool postrouting_rest(OnItsWay way);

  // How the last nat chains ended.
  ChainEnd nat_end() const { return nat_end_; }
  // The rule that set the packet's mark.
  const std::string& marked_because() const { return marked_because_; }

 private:
  using Hook = netlink::NftHook;

  bool enter(Hook hook, const char* chain, OnItsWay way);
  bool nat(Hook hook, const char* chain, OnItsWay way);
  bool pass(ipset::Table table, const char* chain, OnItsWay way);
  // Chains of other programs' tables with priorities from `first` to before `end`.
  bool others(Hook hook, bool in_nat, std::int64_t first, std::int64_t end, OnItsWay way);
  void doubt_order(const NftChainPlace& place, OnItsWay way) const;
  void doubt_end(ipset::Table table, const std::string& chain, const ChainWalk& end,
                 const Packet& before, OnItsWay way) const;
  bool take(ChainWalk result, const std::string& stage, OnItsWay way);
  void translate(const ipset::TranslateAction& action, OnItsWay way) const;

  const NodeReading& node_;
  IsLocal is_local_;
  ChainEnd nat_end_ = ChainEnd::accepted;
  std::string marked_because_;
};

}  // namespace ipvsproxier::ctl

#pragma once

// FlowGuard: keeps connections of Services out of flowtables while rules of others add connections
// to these (ipset/nft/flow_rules.h), and tells of such rules when they come and when they are gone.
// Our rules for it come with the first look that finds one. They stay for some time after the last
// look that did: who adds and removes such a rule all the time does not make us write each time.
// Beside legacy iptables a table of nf_tables takes the place of our rules
// (ipset/nftables/flow_table.h). Sync thread only.

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "ipset/rules/rule_table.h"
#include "netlink/nftables/nftables_types.h"
#include "netlink/result.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/failed_look.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

using FindFlowRules = std::function<netlink::Result<std::vector<netlink::NftFlowRule>>()>;

// That table, for a family.
struct FlowTable {
  std::function<netlink::Status(netlink::Family)> make;  // empty: rules of our packet filter do it
  std::function<netlink::Result<bool>(netlink::Family)> remove;  // empty: there can be none
};

class FlowGuard {
 public:
  static constexpr std::chrono::seconds kStays{10};
  static constexpr std::chrono::seconds kBetweenLooks{1};
  // More rules than that are counted.
  static constexpr std::size_t kMostTold = 8;

  // An empty `find`: this kernel has no nf_tables.
  FlowGuard(FindFlowRules find, FlowTable table, spdlog::logger& logger)
      : find_(std::move(find)), table_(std::move(table)), logger_(logger) {}

  // All was read again, or others changed such rules: if these are away at the next look, they may
  // have been there since the last one. One look a second at most.
  void hurry() { hurried_ = true; }
  void note_change() { hurried_ = changed_ = true; }
  std::optional<TimePoint> next() const;
  bool is_due(TimePoint now) const { return next() && now >= *next(); }

  struct Change {
    std::set<netlink::Family> rules;    // differ from now on
    std::set<netlink::Family> guarded;  // of these: connections made before may be in a flowtable
  };
  // Looks, and has the planner plan what the rules are to be, or makes and removes the table.
  // `rules` is asked whether the kernel can have ours, once for each look that needs them.
  Change look(ipset::RuleTable& rules, plan::Planner& planner, TimePoint now);

  // What is said of rules that add connections of Services to a flowtable, as nothing keeps them
  // out.
  std::vector<std::string> unguarded() const;

 private:
  Change judge(const std::set<netlink::Family>& threatened, ipset::RuleTable& rules,
               const plan::Planner& planner, TimePoint now);
  netlink::Status guard(netlink::Family family, ipset::RuleTable& rules);
  void remove_table(netlink::Family family);
  std::string why_unguarded(const netlink::NftFlowRule& rule) const;
  void tell(std::vector<netlink::NftFlowRule> found);

  FindFlowRules find_;
  FlowTable table_;
  spdlog::logger& logger_;
  FailedLook failed_look_{"rules that add connections to flowtables", logger_};
  std::set<netlink::Family> made_;                    // the table is there
  std::set<netlink::Family> cleared_;                 // that of an earlier process is not there
  std::map<netlink::Family, TimePoint> seen_;         // last
  std::map<netlink::Family, std::string> why_;        // not guarded, though there is such a rule
  std::map<netlink::NftFlowRule, std::string> told_;  // with why they are not guarded
  std::size_t untold_ = 0;
  bool hurried_ = false;
  bool changed_ = false;  // since the last look
  TimePoint not_before_{};
};

}  // namespace ipvsproxier::sync

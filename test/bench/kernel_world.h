#pragma once

// What every benchmark of the kernel side works on: a fresh network namespace with node n1, the
// kernel's tables, a reconciler over them, and the counts of what is sent. One thread. Failures
// throw std::runtime_error.

#include <memory>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/conntrack/conntrack_kernel.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/links/link_kernel.h"
#include "proxier/sync/reconciler.h"
#include "test/bench/workload.h"
#include "test/kernel/netlink_tap.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::bench {

// What was sent to the kernel; datagrams are those of IPVS and rtnetlink.
struct Sent {
  std::uint64_t ipvs_writes = 0;
  std::uint64_t ipvs_dumps = 0;  // and queries
  std::uint64_t link_writes = 0;
  std::uint64_t link_dumps = 0;
  std::uint64_t set_dumps = 0;
  std::uint64_t rule_accesses = 0;  // of the iptables tables, reading or writing
  std::uint64_t datagrams = 0;
  std::uint64_t writes = 0;  // of all, an element of a set counting as one
};

// The kernel's rules, and how often they were accessed.
class CountedRules final : public ipset::IptcRuleTable {
 public:
  using IptcRuleTable::IptcRuleTable;

  std::uint64_t accesses() const { return accesses_; }

  ipset::Result<ipset::TableRules> list(const ipset::TableRules& wanted) override {
    ++accesses_;
    return IptcRuleTable::list(wanted);
  }
  ipset::Result<bool> apply(const ipset::TableRules& desired) override {
    ++accesses_;
    return IptcRuleTable::apply(desired);
  }
  ipset::Result<ipset::RemovedRules> remove(const ipset::RuleRemoval& removal) override {
    ++accesses_;
    return IptcRuleTable::remove(removal);
  }
  ipset::Result<bool> set_aside(const ipset::ChainMove& move,
                                const ipset::RuleRemoval& surplus) override {
    ++accesses_;
    return IptcRuleTable::set_aside(move, surplus);
  }

 private:
  std::uint64_t accesses_ = 0;
};

class KernelWorld {
 public:
  KernelWorld();

  sync::Kernel kernel() { return {*ipvs, *links, *sets, rules, *conntrack}; }
  // Without a drain or a reading of the kernel in between.
  std::unique_ptr<sync::Reconciler> reconciler();
  // With this IPVS table, and real servers that drain looked at after a time.
  std::unique_ptr<sync::Reconciler> reconciler(netlink::IpvsTable& table,
                                               std::chrono::milliseconds first_look);
  Sent sent() const;
  // Counts write requests from the first call on: what comes too fast for it would be lost.
  test::NetlinkTap& tap();

  // Elements that the sets of ours hold, past the daemon.
  std::size_t elements();
  std::size_t virtual_servers();
  std::size_t addresses();  // on the dummy links of ours

  const test::Netns& netns() const { return netns_.netns(); }

 private:
  test::FreshNetns netns_;

 public:
  std::unique_ptr<netlink::KernelIpvsTable> ipvs;
  std::unique_ptr<netlink::KernelLinkTable> links;
  std::unique_ptr<ipset::LibipsetTable> sets;
  CountedRules rules;
  std::unique_ptr<netlink::KernelConntrackTable> conntrack;

 private:
  std::optional<test::NetlinkTap> tap_;
  spdlog::logger logger_{"bench"};
};

// Runs a report's checks: throws with the counts if anything failed.
void require_complete(const sync::SyncReport& report);

double now_ms();  // CLOCK_MONOTONIC

// One line of the answer: "NAME<tab>VALUE<tab>UNIT".
void print_figure(const std::string& name, double value, const char* unit);

}  // namespace ipvsproxier::bench

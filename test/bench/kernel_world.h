#pragma once

// What every benchmark of the kernel side works on: the network namespace of node n1, the kernel's
// tables with one of the packet filters, a reconciler over them, and the counts of what is sent.
// One thread. Failures throw std::runtime_error.

#include <memory>
#include <optional>
#include <string>

#include <spdlog/logger.h>

#include "ipset/nftables/filter_kernel.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_table.h"
#include "ipset/sets/set_libipset.h"
#include "ipset/sets/set_table.h"
#include "netlink/conntrack/conntrack_kernel.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/links/link_kernel.h"
#include "proxier/sync/reconciler.h"
#include "test/bench/workload.h"
#include "test/kernel/netlink_tap.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::bench {

// What was sent to the kernel; datagrams are those of IPVS, rtnetlink and nf_tables.
struct Sent {
  std::uint64_t ipvs_writes = 0;
  std::uint64_t ipvs_dumps = 0;  // and queries
  std::uint64_t link_writes = 0;
  std::uint64_t link_dumps = 0;
  std::uint64_t set_dumps = 0;
  std::uint64_t rule_accesses = 0;  // of the tables of rules, reading or writing
  std::uint64_t datagrams = 0;
  std::uint64_t transactions = 0;  // of nf_tables
  std::uint64_t writes = 0;        // of all, an element of a set counting as one
};

// The kernel's rules, and how often they were accessed.
class CountedRules final : public ipset::RuleTable {
 public:
  explicit CountedRules(std::unique_ptr<ipset::RuleTable> rules) : rules_(std::move(rules)) {}

  std::uint64_t accesses() const { return accesses_; }

  ipset::Result<ipset::TableRules> list(const ipset::TableRules& wanted) override {
    ++accesses_;
    return rules_->list(wanted);
  }
  ipset::Result<bool> apply(const ipset::TableRules& desired) override {
    ++accesses_;
    return rules_->apply(desired);
  }
  ipset::Result<ipset::RemovedRules> remove(const ipset::RuleRemoval& removal) override {
    ++accesses_;
    return rules_->remove(removal);
  }
  ipset::Result<bool> set_aside(const ipset::ChainMove& move,
                                const ipset::RuleRemoval& surplus) override {
    ++accesses_;
    return rules_->set_aside(move, surplus);
  }

 private:
  std::unique_ptr<ipset::RuleTable> rules_;
  std::uint64_t accesses_ = 0;
};

class KernelWorld {
 public:
  // In a fresh network namespace, or in that of a node that is there; the calling thread is in it
  // until the end of this object.
  explicit KernelWorld(ipset::PacketFilter filter = ipset::PacketFilter::iptables);
  KernelWorld(ipset::PacketFilter filter, const test::Netns& node);

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

  const test::Netns& netns() const { return node_; }

 private:
  KernelWorld(ipset::PacketFilter filter, std::unique_ptr<test::Netns> fresh);
  netlink::NlCounters nft_counters() const;

  std::unique_ptr<test::Netns> fresh_;
  const test::Netns& node_;
  test::EnterNetns enter_;

 public:
  plan::PlannerOptions options;          // of reconcilers that are made from now on
  sync::PublishFigures publish_figures;  // if set, they read the traffic figures of all Services
  std::unique_ptr<netlink::KernelIpvsTable> ipvs;
  std::unique_ptr<netlink::KernelLinkTable> links;
  std::unique_ptr<ipset::KernelFilterTable> nftables;  // null with iptables
  std::unique_ptr<ipset::SetTable> sets;
  CountedRules rules;
  std::unique_ptr<netlink::KernelConntrackTable> conntrack;

 private:
  ipset::LibipsetTable* ip_sets_ = nullptr;  // `sets`, null with nf_tables
  std::optional<test::NetlinkTap> tap_;
  spdlog::logger logger_{"bench"};
};

// Runs a report's checks: throws with the counts if anything failed.
void require_complete(const sync::SyncReport& report);

double now_ms();  // CLOCK_MONOTONIC

// One line of the answer: "NAME<tab>VALUE<tab>UNIT".
void print_figure(const std::string& name, double value, const char* unit);

}  // namespace ipvsproxier::bench

#pragma once

// FakeRuleTable: RuleTable in memory. It refuses what the kernel refuses: rules that name a set or
// a chain that does not exist, rules that are not ours, comments that are too long. Others' edits
// are made with the words of the iptables command.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ipset/rules/rule_table.h"
#include "test/fakes/fault_injector.h"

namespace ipvsproxier::test {

class FakeRuleTable : public ipset::RuleTable {
 public:
  FakeRuleTable();

  netlink::Result<ipset::TableRules> list(const ipset::TableRules& wanted) override;
  netlink::Result<bool> apply(const ipset::TableRules& desired) override;
  netlink::Result<ipset::RemovedRules> remove(const ipset::RuleRemoval& removal) override;
  netlink::Result<bool> set_aside(const ipset::ChainMove& move,
                                  const ipset::RuleRemoval& surplus) override;

  std::uint64_t commits() const { return commits_; }

  // Consulted before every call: "list IPv4 nat", "write IPv4 nat", "write IPv4 filter with match
  // ipvs", "remove from IPv4 nat", "set aside in IPv4 nat".
  FaultInjector faults;

  // Called after every write, whatever became of it.
  std::function<void(netlink::Family)> after;

  // Called when it is not as it was, and not because of apply().
  std::function<void()> after_others = [] {};

  // What list() answers, past all faults.
  ipset::TableRules read(const ipset::TableRules& wanted) const;

  // The sets that exist; rules in the tables may go on naming one that is taken out.
  std::set<std::string> sets;
  std::function<bool(const std::string&)> has_set = [this](const std::string& name) {
    return sets.contains(name);
  };

  // One of "-N CHAIN", "-F CHAIN", "-D CHAIN NUMBER", "-A CHAIN RULE", "-I CHAIN RULE", where RULE
  // is
  // "[-m conntrack --ctstate NEW] [-m comment --comment TEXT] -j TARGET" and TARGET a verdict or a
  // chain.
  void edit(netlink::Family family, ipset::Table table, const std::string& words);

  // Others flush all tables and delete all chains that are not the kernel's.
  void vanish();
  void note_foreign_hands();  // no table is as it was, perhaps
  // They did, and the tables of the family were not all listed since.
  bool is_unseen(netlink::Family family) const;

  // The rules by chain as iptables-save prints them, without "-A CHAIN".
  std::map<std::string, std::vector<std::string>> lines(netlink::Family family,
                                                        ipset::Table table) const;

  // One packet from this node, seen by every rule of OUTPUT in both tables.
  void pass_packet(netlink::Family family);
  std::uint64_t packets(netlink::Family family, ipset::Table table, const std::string& chain,
                        std::size_t index) const;

 private:
  struct Counted {
    ipset::Rule rule;
    std::uint64_t packets = 0;
  };
  using Chains = std::map<std::string, std::vector<Counted>>;
  using Key = std::pair<netlink::Family, ipset::Table>;

  void make_base_chains();
  static std::vector<std::string> surplus_in(const Chains& chains, const ipset::TableRules& wanted);
  static bool is_led_to(const Chains& chains, const std::string& chain);
  netlink::Result<bool> write(const ipset::TableRules& desired);
  ipset::RemovedRules take_out(const ipset::RuleRemoval& removal);
  bool move_chain(const ipset::ChainMove& move, const ipset::RuleRemoval& surplus);
  netlink::Status check_rule(const Chains& chains, const ipset::Rule& rule) const;

  std::map<Key, Chains> tables_;
  std::set<Key> unseen_;
  std::uint64_t commits_ = 0;
};

}  // namespace ipvsproxier::test

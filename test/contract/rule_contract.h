#pragma once

// What every RuleTable does: the same cases against the fake and against the kernel.

#include <map>
#include <string>
#include <vector>

#include "ipset/rules/rule_table.h"

namespace ipvsproxier::test {

// A table whose surroundings others can change; empty at first but for the sets of the catalogue.
class RuleWorld {
 public:
  virtual ~RuleWorld() = default;

  virtual ipset::RuleTable& table() = 0;
  virtual std::uint64_t commits() = 0;
  virtual void destroy_set(const std::string& name) = 0;  // no rule may name it
  // What others do; the words of FakeRuleTable::edit().
  virtual void edit(netlink::Family family, ipset::Table table, const std::string& words) = 0;
  // The rules by chain as iptables-save prints them, without "-A CHAIN"; a chain without rules may
  // be left out.
  virtual std::map<std::string, std::vector<std::string>> lines(netlink::Family family,
                                                                ipset::Table table) = 0;
  // One packet from this node to itself; how many a rule has seen.
  virtual void pass_packet(netlink::Family family) = 0;
  virtual std::uint64_t packets(netlink::Family family, ipset::Table table,
                                const std::string& chain, std::size_t index) = 0;
};

// To be called from a test case, which it divides into sections.
void check_rule_contract(RuleWorld& world, netlink::Family family);

}  // namespace ipvsproxier::test

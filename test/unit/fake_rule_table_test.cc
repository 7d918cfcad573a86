#include "test/fakes/fake_rule_table.h"

#include <catch2/catch.hpp>

#include "ipset/sets/set_catalog.h"
#include "test/contract/rule_contract.h"

namespace ipvsproxier::test {
namespace {

using ipset::Table;
using netlink::Family;

class FakeWorld : public RuleWorld {
 public:
  FakeWorld() {
    for (const auto family : netlink::kFamilies)
      for (const auto id : ipset::kIpSetIds) fake_.sets.insert(set_name(id, family));
  }
  ipset::RuleTable& table() override { return fake_; }
  std::uint64_t commits() override { return fake_.commits(); }
  void destroy_set(const std::string& name) override { fake_.sets.erase(name); }
  void edit(Family family, Table table, const std::string& words) override {
    fake_.edit(family, table, words);
  }
  std::map<std::string, std::vector<std::string>> lines(Family family, Table table) override {
    return fake_.lines(family, table);
  }
  void pass_packet(Family family) override { fake_.pass_packet(family); }
  std::uint64_t packets(Family family, Table table, const std::string& chain,
                        std::size_t index) override {
    return fake_.packets(family, table, chain, index);
  }

 private:
  FakeRuleTable fake_;
};

TEST_CASE("the fake rule table keeps the contract for IPv4") {
  FakeWorld world;
  check_rule_contract(world, Family::ipv4);
}

TEST_CASE("the fake rule table keeps the contract for IPv6") {
  FakeWorld world;
  check_rule_contract(world, Family::ipv6);
}

}  // namespace
}  // namespace ipvsproxier::test

#include "test/fakes/fake_set_table.h"

#include <catch2/catch.hpp>

#include "test/contract/set_contract.h"
#include "test/contract/set_parts_contract.h"

namespace ipvsproxier::test {
namespace {

class FakeSetWorld {
 public:
  SetTable& table() { return table_; }
  std::uint64_t writes() const { return table_.writes(); }
  void make_foreign(const std::string& name) { table_.make_foreign(name, "hash:mac"); }
  void hold(const std::string& name) { table_.hold(name); }

 private:
  FakeSetTable table_;
};

TEST_CASE("the fake set table keeps the set contract") {
  check_set_contract<FakeSetWorld>();
}

TEST_CASE("the fake set table lists in parts") {
  check_set_parts_contract<FakeSetWorld>();
}

TEST_CASE("the fake set table is full at exactly its maxelem, in order") {
  FakeSetTable table;
  SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4);
  spec.max_elements = 2;
  REQUIRE(table.ensure(spec));
  const auto outcomes = table.apply(
      spec,
      contract_ops(true, {IpElement{contract_ip("10.0.0.3")}, IpElement{contract_ip("10.0.0.2")},
                          IpElement{contract_ip("10.0.0.1")}, IpElement{contract_ip("10.0.0.2")}}));
  CHECK(outcomes[0]);
  CHECK(outcomes[1]);
  CHECK_FALSE(outcomes[2]);
  CHECK(outcomes[3]);
}

TEST_CASE("the fake set table lets go of a released set") {
  FakeSetTable table;
  const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4);
  REQUIRE(table.ensure(spec));
  table.hold(spec.name);
  CHECK_FALSE(table.destroy(spec.name));
  table.release(spec.name);
  CHECK(table.destroy(spec.name));
}

}  // namespace
}  // namespace ipvsproxier::test

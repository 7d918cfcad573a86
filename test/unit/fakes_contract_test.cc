// The fakes keep the contracts that the kernel keeps.

#include <catch2/catch.hpp>

#include "test/contract/ipvs_contract.h"
#include "test/contract/link_contract.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

TEST_CASE("fake: virtual services keep the contract") {
  FakeIpvsTable table;
  ipvs_service_contract(table);
}

TEST_CASE("fake: real servers keep the contract") {
  FakeIpvsTable table;
  ipvs_server_contract(table);
}

TEST_CASE("fake: IPVS batches keep the contract") {
  FakeIpvsTable table;
  ipvs_batch_contract(table);
}

TEST_CASE("fake: links keep the contract") {
  FakeLinkTable table;
  link_contract(table);
}

TEST_CASE("fake: chosen operations fail, as often as told, and are counted") {
  FakeIpvsTable table;
  const auto web = virtual_service("10.0.0.1", 80);
  table.faults.fail("10.0.0.1:80", Error{ErrorKind::overrun, 105, "lost"}, 1);
  const auto error = refused(table, AddService{web});
  CHECK(error.kind == ErrorKind::overrun);
  CHECK(services_of(table).empty());
  must(table, AddService{web});
  CHECK(services_of(table) == std::vector{web});
  CHECK(table.writes() == 2);
  table.faults.fail("list virtual services", Error{ErrorKind::timeout, 110, ""});
  CHECK_FALSE(table.list_services());
  table.faults.clear();
  CHECK(table.list_services());
}

}  // namespace
}  // namespace ipvsproxier::test

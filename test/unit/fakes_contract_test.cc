// The fakes keep the contracts that the kernel keeps.

#include <catch2/catch.hpp>

#include "test/contract/conntrack_contract.h"
#include "test/contract/ipvs_contract.h"
#include "test/contract/link_contract.h"
#include "test/fakes/fake_conntrack_table.h"
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

TEST_CASE("fake: listings of virtual services keep the contract") {
  FakeIpvsTable table;
  ipvs_listing_contract(table);
}

TEST_CASE("fake: links keep the contract") {
  FakeLinkTable table;
  link_contract(table);
}

TEST_CASE("fake: UDP flows keep the contract") {
  FakeConntrackTable table;
  const auto track = [&](const FlowEnd& source, const FlowEnd& to) {
    static_cast<void>(table.track(source, to, to));
  };
  for (const auto family : kFamilies) {
    conntrack_listing_contract(table, track, family);
    conntrack_removal_contract(table, track, family);
  }
}

TEST_CASE("fake: a flow that comes back has another id; removals and listings fail as told") {
  FakeConntrackTable table;
  const auto client = flow_end("10.0.0.1", 4000);
  const auto dns = flow_end("10.96.0.10", 53);
  const auto first = table.track(client, dns, flow_end("10.1.0.1", 53));
  CHECK(table.track(client, dns, flow_end("10.1.0.2", 53)) == first);
  must_remove(table, {first});
  const auto second = table.track(client, dns, flow_end("10.1.0.2", 53));
  CHECK(second.id != first.id);
  CHECK(second.server == flow_end("10.1.0.2", 53));
  must_remove(table, {first});
  CHECK(flows_of(table, Family::ipv4) == std::vector{second});
  CHECK(table.writes() == 2);
  CHECK(table.listings() == 2);  // one of them in parts
  table.faults.fail("10.96.0.10:53", Error{ErrorKind::denied, 1, ""}, 1);
  CHECK(table.remove(std::vector{second}).at(0).error().kind == ErrorKind::denied);
  table.faults.fail("list UDP flows", Error{ErrorKind::overrun, 105, ""}, 1);
  CHECK_FALSE(table.list({.family = Family::ipv4}));
  CHECK(flows_of(table, Family::ipv4, dns) == std::vector{second});
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

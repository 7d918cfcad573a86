#include "netlink/ipvs/ipvs_kernel.h"

#include <catch2/catch.hpp>

#include "test/contract/ipvs_contract.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

std::unique_ptr<KernelIpvsTable> open_ipvs(const NlOptions& options = {}) {
  auto table = KernelIpvsTable::open(options);
  if (!table) FAIL(to_string(table.error()));
  return std::move(*table);
}

TEST_CASE("kernel: virtual services keep the contract") {
  FreshNetns netns;
  ipvs_service_contract(*open_ipvs());
}

TEST_CASE("kernel: real servers keep the contract") {
  FreshNetns netns;
  ipvs_server_contract(*open_ipvs());
}

TEST_CASE("kernel: IPVS batches keep the contract") {
  FreshNetns netns;
  ipvs_batch_contract(*open_ipvs());
}

TEST_CASE("kernel: listings of virtual services keep the contract") {
  FreshNetns netns;
  ipvs_listing_contract(*open_ipvs());
}

TEST_CASE("kernel: IPVS answers that are lost are an overrun, and the table still works") {
  FreshNetns netns;
  // The kernel's minimum holds two or three refusals; a window has 32.
  const auto table = open_ipvs({.receive_buffer = 1});
  std::vector<IpvsOp> ops;
  for (std::uint16_t i = 0; i < 32; ++i)
    ops.push_back(AddServer{virtual_service("10.0.0.1", 80).key, real_server("10.1.0.1", i)});
  const auto outcomes = table->apply(ops);
  REQUIRE(outcomes.size() == ops.size());
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(
        (outcome.error().kind == ErrorKind::overrun || outcome.error().kind == ErrorKind::missing));
  }
  CHECK(std::ranges::any_of(
      outcomes, [](const Status& outcome) { return outcome.error().kind == ErrorKind::overrun; }));
  must(*table, AddService{virtual_service("10.0.0.1", 80)});
  CHECK(services_of(*table).size() == 1);
}

TEST_CASE(
    "kernel: IPVS requests go several in a datagram, and unchanged timeouts are not written") {
  FreshNetns netns;
  const auto table = open_ipvs();
  const auto before = table->counters();
  std::vector<IpvsOp> ops;
  for (std::uint16_t i = 1; i <= 320; ++i)
    ops.push_back(AddService{virtual_service("10.0.0.1", i)});
  for (const auto& outcome : table->apply(ops)) REQUIRE(outcome);
  CHECK(table->counters().write_requests - before.write_requests == 320);
  CHECK(table->counters().datagrams - before.datagrams == 2);

  REQUIRE(table->set_timeouts({.tcp = 1000, .udp = 200}));
  const auto written = table->counters().write_requests;
  CHECK(written - before.write_requests == 321);
  REQUIRE(table->set_timeouts({.tcp = 1000, .udp = 200}));
  REQUIRE(table->list_services());
  CHECK(table->counters().write_requests == written);
}

TEST_CASE("kernel: a listing of 3000 services is complete") {
  FreshNetns netns;
  const auto table = open_ipvs();
  std::vector<IpvsOp> ops;
  std::vector<VirtualService> wanted;
  for (std::uint16_t i = 1; i <= 3000; ++i) {
    wanted.push_back(virtual_service(i % 2 == 0 ? "10.0.0.1" : "fd00::1", i));
    ops.push_back(AddService{wanted.back()});
  }
  for (const auto& outcome : table->apply(ops)) REQUIRE(outcome);
  std::ranges::sort(wanted);
  CHECK(services_of(*table) == wanted);
}

TEST_CASE("kernel: without the privilege IPVS is denied, and the error says what is needed") {
  FreshNetns netns;
  const auto table = open_ipvs();
  // Capabilities are looked up in the sender; the socket alone gives none.
  const auto denied = [&] {
    const WithoutNetAdmin unprivileged;
    return std::pair(apply_one(*table, AddService{virtual_service("10.0.0.1", 80)}),
                     table->list_services());
  }();
  REQUIRE_FALSE(denied.first);
  CHECK(denied.first.error().kind == ErrorKind::denied);
  CHECK(to_string(denied.first.error()).find("needs CAP_NET_ADMIN") != std::string::npos);
  REQUIRE_FALSE(denied.second);
  CHECK(denied.second.error().kind == ErrorKind::denied);
}

}  // namespace
}  // namespace ipvsproxier::test

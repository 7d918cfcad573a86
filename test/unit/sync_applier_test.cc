// The Applier with more operations than it does at once.

#include <catch2/catch.hpp>

#include "proxier/sync/applier.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::IpAddress;
using netlink::IpvsOp;

constexpr std::uint32_t kServices = 3000;

netlink::VirtualServiceKey service_key(std::uint32_t number) {
  return {.address = IpAddress::v4(0x0a600001 + number), .port = 80};
}

// Each with one real server, and before them one without: so virtual service 511 is the last of the
// 1024 operations of a part, and its real server the first of the next.
plan::Transaction many_services() {
  std::vector<IpvsOp> ops = {
      netlink::AddService{{.key = service_key(kServices), .scheduler = "rr"}}};
  for (std::uint32_t i = 0; i < kServices; ++i) {
    ops.emplace_back(netlink::AddService{{.key = service_key(i), .scheduler = "rr"}});
    ops.emplace_back(netlink::AddServer{
        service_key(i), {.key = {.address = IpAddress::v4(0x0af40001), .port = 8080}}});
  }
  plan::Transaction transaction;
  transaction.phases.push_back({"add virtual services", std::move(ops)});
  return transaction;
}

// Nothing is ever answered.
class SilentIpvsTable final : public netlink::IpvsTable {
 public:
  std::size_t calls = 0;

  std::vector<netlink::Status> apply(std::span<const IpvsOp> ops) override {
    ++calls;
    return {ops.size(), silence()};
  }
  netlink::Result<ServicesPart> begin_services() override { return silence(); }
  netlink::Result<ServicesPart> next_services() override { return silence(); }
  netlink::Result<std::vector<netlink::VirtualService>> list_services() override {
    return silence();
  }
  netlink::Result<std::vector<netlink::ListedServer>> list_servers(
      const netlink::VirtualServiceKey&) override {
    return silence();
  }
  netlink::Result<netlink::IpvsTimeouts> timeouts() override { return silence(); }
  netlink::Status set_timeouts(const netlink::IpvsTimeouts&) override { return silence(); }

 private:
  static Error silence() { return {ErrorKind::timeout, ETIMEDOUT, "no answer"}; }
};

struct OtherTables {
  FakeLinkTable links;
  FakeSetTable sets;
  FakeRuleTable rules;
  FakeConntrackTable conntrack;
};

TEST_CASE("applier: of many operations each has its own outcome, and what needs it waits") {
  FakeIpvsTable ipvs;
  OtherTables others;
  // Its real server is in the same part, in the next one.
  for (const auto number : {700U, 511U})
    ipvs.faults.fail("add virtual service " + to_string(service_key(number)),
                     Error{ErrorKind::io, EIO, ""});
  plan::Mirror mirror;
  mirror.take([](plan::ActualState& state) { state.services.emplace(); });
  const std::function<void()> progress = [] {};
  sync::Applier applier({ipvs, others.links, others.sets, others.rules, others.conntrack}, mirror,
                        progress);
  const auto outcome = applier.apply(many_services(), {});
  CHECK(outcome.written.ipvs == 2 * kServices + 1 - 4);
  CHECK(outcome.failures.size() == 2);
  CHECK(outcome.held.size() == 2);
  CHECK(outcome.unsettled.services == plan::ServiceKeySet{service_key(511), service_key(700)});
  CHECK(mirror.state().services->size() == kServices + 1 - 2);
  CHECK(ipvs.list_services()->size() == kServices + 1 - 2);
}

TEST_CASE(
    "applier: a kernel that does not answer is waited for once, not for every part or phase") {
  SilentIpvsTable ipvs;
  OtherTables others;
  plan::Mirror mirror;
  mirror.take([](plan::ActualState& state) { state.services.emplace(); });
  const std::function<void()> progress = [] {};
  sync::Applier applier({ipvs, others.links, others.sets, others.rules, others.conntrack}, mirror,
                        progress);
  auto transaction = many_services();
  std::vector<IpvsOp> removals(100, netlink::DeleteService{service_key(kServices + 1)});
  transaction.phases.push_back({"remove virtual services", std::move(removals)});
  const auto outcome = applier.apply(transaction, {});
  CHECK(ipvs.calls == 1);
  CHECK(outcome.failures.size() + outcome.held.size() == 2 * kServices + 1 + 100);
  CHECK(outcome.suspect);
  CHECK(outcome.written.ipvs == 0);
  CHECK(mirror.state().services->empty());
}

}  // namespace
}  // namespace ipvsproxier::test

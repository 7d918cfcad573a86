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
  netlink::Result<netlink::IpvsTraffic> traffic(const netlink::VirtualServiceKey&) override {
    return silence();
  }
  netlink::Result<bool> has_scheduler(netlink::ShortName) override { return silence(); }
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

// Takes everything, and counts the operations of each call.
class CountingSets final : public ipset::SetTable {
 public:
  std::vector<std::size_t> calls;

  ipset::Status ensure(const ipset::SetSpec&) override { return {}; }
  ipset::Result<std::optional<ipset::ListedSet>> list(const std::string&) override {
    return std::optional<ipset::ListedSet>{};
  }
  std::vector<ipset::Status> apply(const ipset::SetSpec&,
                                   std::span<const ipset::ElementOp> ops) override {
    return std::vector<ipset::Status>(ops.size());
  }
  std::vector<std::vector<ipset::Status>> apply_all(std::span<const SetOps> changes) override {
    calls.push_back(0);
    for (const auto& change : changes) calls.back() += change.ops.size();
    return SetTable::apply_all(changes);
  }
  ipset::Status destroy(const std::string&) override { return {}; }
};

TEST_CASE("elements of several sets are written together, each source range counts") {
  CountingSets sets;
  FakeIpvsTable ipvs;
  FakeLinkTable links;
  FakeRuleTable rules;
  FakeConntrackTable conntrack;
  sync::Kernel kernel{ipvs, links, sets, rules, conntrack, std::nullopt};
  plan::Mirror mirror;
  const auto apply = [&](std::vector<plan::SetChange> changes) {
    plan::Transaction transaction;
    transaction.phases.push_back({"add elements", std::move(changes)});
    sets.calls.clear();
    CHECK(sync::Applier(kernel, mirror, [] {}).apply(transaction, {}).failures.empty());
    return sets.calls;
  };
  const auto vips = [](std::uint32_t count) {
    plan::SetChange change{{netlink::Family::ipv4, ipset::SetId::nft_vips}, {}};
    for (std::uint32_t i = 0; i < count; ++i)
      change.ops.push_back({true, ipset::IpElement{IpAddress::v4(0x0a600001 + i)}});
    return change;
  };
  const auto ranges = [](std::uint32_t services, std::uint32_t each) {
    plan::SetChange change{{netlink::Family::ipv4, ipset::SetId::nft_source_ranges}, {}};
    for (std::uint32_t i = 0; i < services; ++i) {
      ipset::RangesElement element{IpAddress::v4(0x0a600001 + i), netlink::Protocol::tcp, 80, {}};
      for (std::uint32_t range = 0; range < each; ++range)
        element.ranges.push_back(netlink::IpPrefix::of(IpAddress::v4(range << 8), 24));
      change.ops.push_back({true, std::move(element)});
    }
    return change;
  };
  using Calls = std::vector<std::size_t>;
  CHECK(apply({ranges(1, 10), vips(5)}) == Calls{6});
  CHECK(apply({ranges(1, 10), vips(2000)}) == Calls{1015, 986});
  CHECK(apply({ranges(1, 3000), vips(1)}) == Calls{1, 1});
  CHECK(apply({ranges(3, 600)}) == Calls{2, 1});
}

}  // namespace
}  // namespace ipvsproxier::test

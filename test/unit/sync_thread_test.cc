// The sync thread with a real clock, on fakes; what ThreadSanitizer looks at.

#include "proxier/sync/sync_thread.h"

#include <atomic>

#include <spdlog/sinks/null_sink.h>
#include <catch2/catch.hpp>

#include "cmd/ipvs_proxier/question_queue.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::Protocol;
using test::ip;

// Tells another thread how many times virtual services were listed and what was written; the fakes
// themselves belong to the sync thread.
class CountingIpvsTable final : public netlink::IpvsTable {
 public:
  std::vector<netlink::Status> apply(std::span<const netlink::IpvsOp> ops) override {
    auto result = table_.apply(ops);
    applied += ops.size();
    return result;
  }
  netlink::Result<std::vector<netlink::VirtualService>> list_services() override {
    return table_.list_services();
  }
  netlink::Result<ServicesPart> begin_services() override {
    auto result = table_.begin_services();
    ++listings;
    return result;
  }
  netlink::Result<ServicesPart> next_services() override { return table_.next_services(); }
  netlink::Result<std::vector<netlink::ListedServer>> list_servers(
      const netlink::VirtualServiceKey& service) override {
    return table_.list_servers(service);
  }
  netlink::Result<netlink::IpvsTraffic> traffic(
      const netlink::VirtualServiceKey& service) override {
    return table_.traffic(service);
  }
  netlink::Result<bool> has_scheduler(netlink::ShortName scheduler) override {
    return table_.has_scheduler(scheduler);
  }
  netlink::Result<netlink::IpvsTimeouts> timeouts() override { return table_.timeouts(); }
  netlink::Status set_timeouts(const netlink::IpvsTimeouts& timeouts) override {
    return table_.set_timeouts(timeouts);
  }

  std::uint64_t requests() const override { return applied; }

  std::atomic<std::size_t> applied = 0;
  std::atomic<std::size_t> listings = 0;

 private:
  test::FakeIpvsTable table_;
};

// False if it does not become true in a time that is long for any machine.
template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

// What a sync thread needs, on fakes.
struct Parts {
  CountingIpvsTable ipvs;
  test::FakeLinkTable links;
  test::FakeSetTable sets;
  test::FakeRuleTable rules;
  test::FakeConntrackTable conntrack;
  spdlog::logger logger{"test", std::make_shared<spdlog::sinks::null_sink_mt>()};
  Reconciler reconciler;
  loop::Mailbox<SyncInput> mailbox;
  serve::Status status;
  serve::Metrics metrics{{.families = {Family::ipv4}, .version = "0"}};

  explicit Parts(std::chrono::milliseconds sync_period)
      : reconciler({ipvs, links, sets, rules, conntrack}, settings(sync_period), logger) {
    for (auto id : ipset::kSetIds) rules.sets.insert(ipset::set_name(id, Family::ipv4));
  }

  static ReconcilerSettings settings(std::chrono::milliseconds sync_period) {
    ReconcilerSettings settings;
    settings.node_name = "n1";
    settings.options.families = {Family::ipv4};
    settings.sync_period = sync_period;
    settings.service_metrics = model::ServiceMetrics::all;
    return settings;
  }
};

TEST_CASE("the sync thread programs what it is sent, and reads back by itself") {
  Parts parts(20ms);
  auto& ipvs = parts.ipvs;
  auto& mailbox = parts.mailbox;
  auto& status = parts.status;
  auto& metrics = parts.metrics;

  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.external_policy_local = true;
  web.health_check_node_port = 31000;
  {
    Publisher publisher(status, metrics, {Family::ipv4});
    const SyncThread thread(parts.reconciler, mailbox, 1ms, publisher);
    SyncInput input;
    input.changes.put(web);
    input.changes.complete = true;
    mailbox.put(std::move(input));
    REQUIRE(eventually([&] { return ipvs.applied == 1; }));
    const auto before = ipvs.listings.load();
    REQUIRE(eventually([&] { return ipvs.listings > before + 2; }));
    for (int i = 0; i < 50; ++i) {
      SyncInput more;
      more.changes.put(test::slice_of(web, 8080,
                                      {test::endpoint("10.244.1." + std::to_string(i + 1), "n2")},
                                      "s" + std::to_string(i)));
      mailbox.put(std::move(more));
    }
    REQUIRE(eventually([&] { return ipvs.applied == 51; }));
  }
  CHECK(status.families_healthy());
  CHECK(status.take_service_health().services.contains(web.name));
  const auto text = metrics.exposition(status);
  CHECK(text.find("ipvsproxier_netlink_messages_total{kind=\"ipvs\"} 51\n") != std::string::npos);
  CHECK(ipvs.list_servers({ip("10.96.0.9"), Protocol::tcp, 80})->size() == 50);
  const auto after = ipvs.listings.load();
  std::this_thread::sleep_for(100ms);
  CHECK(ipvs.listings == after);
}

TEST_CASE("the sync thread answers while it waits to sync, and before there are lists") {
  Parts parts(30s);
  auto& ipvs = parts.ipvs;
  auto& mailbox = parts.mailbox;
  auto& status = parts.status;
  auto& metrics = parts.metrics;
  cmd::QuestionQueue caller(mailbox);
  const auto how = [](const Inspection& inspection) {
    return std::string(inspection.standing.listed ? "listed" : "waiting") +
           (inspection.standing.known ? ", read " : ", not read ") +
           std::to_string(inspection.cluster.services.size());
  };
  // Nobody is there.
  CHECK_FALSE(caller.ask(how, 10ms, {}));
  Publisher publisher(status, metrics, {Family::ipv4});
  const SyncThread thread(parts.reconciler, mailbox, 1h, publisher);
  CHECK(caller.ask(how, 30s, {}) == "waiting, not read 0");
  SyncInput input;
  input.changes.put(test::web_service());
  input.changes.complete = true;
  mailbox.put(std::move(input));
  REQUIRE(eventually([&] { return ipvs.applied == 1; }));
  // The next sync is an hour away; what it is for is known.
  auto other = test::web_service();
  other.name.name = "other";
  SyncInput more;
  more.changes.put(other);
  mailbox.put(std::move(more));
  CHECK(caller.ask(how, 30s, {}) == "listed, read 2");
  CHECK(caller.ask(how, 30s, {}) == "listed, read 2");
  CHECK(ipvs.applied == 1);
  std::stop_source stop;
  stop.request_stop();
  CHECK_FALSE(caller.ask(how, 30s, stop.get_token()));
  CHECK(caller.ask(how, 30s, {}) == "listed, read 2");
}

TEST_CASE("a scrape does not have changes synced before their time") {
  Parts parts(30s);
  auto& ipvs = parts.ipvs;
  auto& mailbox = parts.mailbox;
  cmd::QuestionQueue caller(mailbox);
  Publisher publisher(parts.status, parts.metrics, {Family::ipv4});
  const SyncThread thread(parts.reconciler, mailbox, 1h, publisher);
  SyncInput input;
  input.changes.put(test::web_service());
  input.changes.complete = true;
  mailbox.put(std::move(input));
  REQUIRE(eventually([&] { return ipvs.applied == 1; }));
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.10")};
  SyncInput more;
  more.changes.put(other);
  more.figures = true;
  mailbox.put(std::move(more));
  std::this_thread::sleep_for(100ms);
  CHECK(ipvs.applied == 1);
}

}  // namespace
}  // namespace ipvsproxier::sync

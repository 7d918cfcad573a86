// The kernel read back in parts, on fakes: what others did is found and put right, and what changes
// meanwhile is served in between and not taken for theirs.

#include <cerrno>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::Operation;
using netlink::Protocol;
using netlink::VirtualServiceKey;
using test::FakeDaemon;
using test::ip;
using test::kE1;
using test::kE2;
using Names = std::set<std::string>;

constexpr int kShops = 70;  // their real servers are read in several parts
constexpr const char* kTold = "others changed";

std::string shop_ip(int number) {
  return "10.96.1." + std::to_string(number);
}

VirtualServiceKey shop_key(int number) {
  return {ip(shop_ip(number)), Protocol::tcp, 80};
}

void put_shop(model::ClusterState& cluster, int number, std::vector<api::Endpoint> endpoints) {
  auto shop = test::web_service();
  shop.name.name = "shop-" + std::to_string(number);
  shop.cluster_ips = {ip(shop_ip(number))};
  cluster.put(shop);
  cluster.put(test::slice_of(shop, 8080, std::move(endpoints)));
}

void remove_shop(model::ClusterState& cluster, int number) {
  const api::NamespacedName name{"default", "shop-" + std::to_string(number)};
  cluster.services.erase(name);
  cluster.slices.erase(name);
}

model::ClusterState shops() {
  model::ClusterState cluster;
  cluster.complete = true;
  for (int number = 1; number <= kShops; ++number)
    put_shop(cluster, number, {test::e1(), test::e2()});
  return cluster;
}

// The next reading back begins; answers what its first part did.
SyncReport begin(FakeDaemon& daemon) {
  daemon.now += 30s;
  auto report = daemon.run();
  REQUIRE(daemon.reading());
  return report;
}

// The rest of it; the last report.
SyncReport finish(FakeDaemon& daemon) {
  SyncReport report;
  while (daemon.reading()) report = daemon.run();
  return report;
}

int parts_of_a_reading() {
  FakeDaemon daemon;
  daemon.see(shops());
  int count = 1;
  for (begin(daemon); daemon.reading(); daemon.run()) ++count;
  return count;
}

// Something that others do; nobody watches them.
struct Damage {
  const char* told;
  std::function<void(FakeDaemon&)> act;
};

void by_others(FakeDaemon& daemon, const netlink::IpvsOp& op) {
  const auto watched = std::exchange(daemon.ipvs.after, nullptr);
  const std::vector<netlink::IpvsOp> ops = {op};
  REQUIRE(daemon.ipvs.apply(ops).at(0));
  daemon.ipvs.after = watched;
}

void by_others(FakeDaemon& daemon, const std::string& set, const ipset::ElementOp& op) {
  const auto watched = std::exchange(daemon.sets.after, nullptr);
  const auto spec = daemon.sets.list(set).value()->spec;
  const std::vector<ipset::ElementOp> ops = {op};
  REQUIRE(daemon.sets.apply(spec, ops).at(0));
  daemon.sets.after = watched;
}

const std::vector<Damage>& damages() {
  static const VirtualServiceKey kForeign{ip("10.96.1.9"), Protocol::tcp, 1};
  static const std::vector<Damage> kDamages = {
      {"add virtual service 10.96.1.69:80",
       [](auto& daemon) { by_others(daemon, netlink::DeleteService{shop_key(69)}); }},
      {"edit virtual service 10.96.1.3:80",
       [](auto& daemon) {
         by_others(daemon, netlink::EditService{{.key = shop_key(3), .scheduler = "wrr"}});
       }},
      {"delete virtual service 10.96.1.9:1",
       [](auto& daemon) {
         by_others(daemon, netlink::AddService{{.key = kForeign, .scheduler = "rr"}});
         by_others(daemon, netlink::AddServer{kForeign, {.key = kE1, .weight = 1}});
       }},
      {"add real server 10.244.1.4:8080",
       [](auto& daemon) {
         by_others(daemon, netlink::DeleteServer{shop_key(40), kE2});
       }},
      {"edit real server 10.244.7.7:8080",  // drains
       [](auto& daemon) {
         by_others(daemon, netlink::AddServer{shop_key(41),
                                              {.key = {ip("10.244.7.7"), 8080}, .weight = 1}});
       }},
      {"edit real server 10.244.0.3:8080",
       [](auto& daemon) {
         by_others(daemon, netlink::EditServer{shop_key(70), {.key = kE1, .weight = 0}});
       }},
      {"add address 10.96.1.5",
       [](auto& daemon) {
         daemon.links.remove_address({plan::kDummyLink, ip("10.96.1.5"), 32});
       }},
      {"delete address 10.96.9.9",
       [](auto& daemon) {
         daemon.links.add_address({plan::kDummyLink, ip("10.96.9.9"), 32});
       }},
      {"add KUBE-CLUSTER-IP 10.96.1.7,tcp:80",
       [](auto& daemon) {
         by_others(daemon, "KUBE-CLUSTER-IP",
                   {false, ipset::IpPortElement{ip("10.96.1.7"), Protocol::tcp, 80}});
       }},
      {"remove KUBE-IPVS-IPS 10.96.9.9",
       [](auto& daemon) {
         by_others(daemon, "KUBE-IPVS-IPS", {true, ipset::IpElement{ip("10.96.9.9")}});
       }},
      {"make set KUBE-LOOP-BACK",
       [](auto& daemon) {
         daemon.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-POSTROUTING");
         REQUIRE(daemon.sets.destroy("KUBE-LOOP-BACK"));
       }},
      {"make set KUBE-NODE-PORT-UDP",
       [](auto& daemon) { REQUIRE(daemon.sets.destroy("KUBE-NODE-PORT-UDP")); }},
      {"IPv4 table nat: KUBE-MARK-MASQ",
       [](auto& daemon) {
         daemon.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-MARK-MASQ");
       }},
      {"IPv4 table filter: ",
       [](auto& daemon) { daemon.rules.edit(Family::ipv4, ipset::Table::filter, "-D INPUT 1"); }},
  };
  return kDamages;
}

TEST_CASE("each kind of damage is found, told and put right by one reading back", "[item-11]") {
  for (const auto& damage : damages()) {
    INFO(damage.told);
    FakeDaemon daemon;
    daemon.see(shops());
    damage.act(daemon);
    auto repairs = begin(daemon).repairs;
    SyncReport last;
    while (daemon.reading()) repairs += (last = daemon.run()).repairs;
    CHECK(repairs > 0);
    CHECK(daemon.says(std::string(kTold) + " the kernel; repairing: " + damage.told));
    CHECK(last.whole);
    CHECK(last.settled);
    daemon.wait(12s);  // what drains goes
    CHECK(daemon.differences() == Names{});
    const auto log = daemon.log();
    const auto writes = daemon.writes();
    daemon.wait(70s);
    CHECK(daemon.writes() == writes);
    CHECK(daemon.log() == log);
  }
}

TEST_CASE("damage between any two parts is found by the next reading back at the latest",
          "[slow]") {
  const int parts = parts_of_a_reading();
  CHECK(parts > 20);
  for (int before = 0; before < parts; ++before)
    for (std::size_t i = static_cast<std::size_t>(before) % 5; i < damages().size(); i += 5) {
      const auto& damage = damages()[i];
      INFO(damage.told << " after " << before << " parts");
      FakeDaemon daemon;
      daemon.see(shops());
      begin(daemon);
      for (int part = 0; part < before && daemon.reading(); ++part) daemon.run();
      damage.act(daemon);
      finish(daemon);
      daemon.wait(42s);
      CHECK(daemon.differences() == Names{});
    }
}

TEST_CASE("a told change of the packet filter is repaired in the middle of a reading back") {
  const auto servers_read = [](const FakeDaemon& daemon) { return daemon.ipvs.server_listings(); };
  FakeDaemon daemon;
  daemon.see(shops());
  const auto before = servers_read(daemon);
  begin(daemon);
  while (servers_read(daemon) == before) daemon.run();
  REQUIRE(daemon.reading());
  daemon.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-MARK-MASQ");
  daemon.see_filter_change();
  daemon.now += std::chrono::milliseconds(20);
  const auto listings = servers_read(daemon);
  while (!daemon.says("KUBE-MARK-MASQ")) {
    REQUIRE(daemon.reading());
    daemon.run();
  }
  CHECK(servers_read(daemon) == listings);
  finish(daemon);
  CHECK(daemon.differences() == Names{});
}

TEST_CASE("changes are served between the parts, and are nobody else's", "[slow]") {
  const int parts = parts_of_a_reading();
  for (int at = 0; at < parts; ++at) {
    INFO("after " << at << " parts");
    FakeDaemon daemon;
    auto cluster = shops();
    daemon.see(cluster);
    begin(daemon);
    for (int i = 0; i < at; ++i) daemon.run();
    REQUIRE((daemon.reading() || at == parts - 1));
    const auto writes = daemon.writes();
    // One of each, of what was read already and of what is still to be read.
    for (const int number : {1, 70}) put_shop(cluster, number, {test::e1()});
    for (const int number : {2, 69}) remove_shop(cluster, number);
    put_shop(cluster, 71, {test::e2()});
    const auto report = daemon.see(cluster);
    CHECK(report.failures == 0);
    CHECK_FALSE(report.reading);
    CHECK(daemon.weights(shop_key(1)).at(kE2) == 0);
    CHECK(daemon.weights(shop_key(70)).at(kE2) == 0);
    CHECK_FALSE(daemon.ipvs.contains(shop_key(2)));
    CHECK_FALSE(daemon.ipvs.contains(shop_key(69)));
    CHECK(daemon.weights(shop_key(71)).size() == 1);
    CHECK(daemon.writes() == writes + 2 + 2 * 4 + 5);
    finish(daemon);
    CHECK_FALSE(daemon.says(kTold));
    CHECK(daemon.writes() == writes + 2 + 2 * 4 + 5);  // none by the reading
    daemon.wait(70s);
    CHECK_FALSE(daemon.says(kTold));
    CHECK(daemon.differences() == Names{});
    CHECK(daemon.watch.broken == std::vector<std::string>{});
  }
}

TEST_CASE("a change at every part is served at once, and the reading back still ends") {
  FakeDaemon daemon;
  auto cluster = shops();
  daemon.see(cluster);
  const int parts = parts_of_a_reading();
  SyncReport last = begin(daemon);
  int count = 1;
  for (; daemon.reading(); ++count) {
    auto endpoints = std::vector{test::e1()};
    if (count % 2 == 0) endpoints.push_back(test::e2());
    put_shop(cluster, 1 + count % kShops, std::move(endpoints));
    last = daemon.see(cluster);
    CHECK(last.failures == 0);
  }
  CHECK(count == parts);
  CHECK(last.whole);
  CHECK(last.settled);
  CHECK_FALSE(daemon.says(kTold));
}

TEST_CASE("a reading back that finds nothing is one sync, without a write or a line") {
  FakeDaemon daemon;
  daemon.see(shops());
  const auto writes = daemon.writes();
  const auto log = daemon.log();
  const auto runs = daemon.runs();
  const auto listings = daemon.ipvs.server_listings();
  CHECK(begin(daemon).reading);
  const auto last = finish(daemon);
  CHECK(last.whole);
  CHECK(last.settled);
  CHECK_FALSE(last.reading);
  CHECK(daemon.runs() == runs + 1);
  CHECK(daemon.writes() == writes);
  CHECK(daemon.log() == log);
  CHECK(daemon.ipvs.server_listings() == listings + kShops);
}

TEST_CASE("a part that cannot be read is told once and read again soon; nothing is taken away") {
  const std::string part =
      GENERATE("list virtual services", "list real servers of virtual service 10.96.1.40",
               "list real servers", "list set KUBE-CLUSTER-IP", "list IPv4 nat", "list addresses");
  INFO(part);
  FakeDaemon daemon;
  daemon.see(shops());
  for (auto* faults :
       {&daemon.ipvs.faults, &daemon.sets.faults, &daemon.rules.faults, &daemon.links.faults})
    faults->fail(part, netlink::make_error(Operation::set, EBUSY, ""),
                 part == "list real servers" ? int{ReadBack::kServicesAStep} : 1);
  const auto writes = daemon.writes();
  std::size_t failures = begin(daemon).failures;
  while (daemon.reading()) failures += daemon.run().failures;
  CHECK(failures == (part == "list real servers" ? ReadBack::kServicesAStep : 1));
  CHECK(daemon.fault_hits() == failures);
  // A change meanwhile is not known to be all right, and shows nothing that is not guarded.
  auto cluster = shops();
  put_shop(cluster, 71, {test::e1()});
  CHECK_FALSE(daemon.see(cluster).settled);
  daemon.wait(1s);
  CHECK(daemon.writes() == writes + 5);
  CHECK_FALSE(daemon.says(kTold));
  CHECK(daemon.differences() == Names{});
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  CHECK(daemon.see(cluster).settled);
}

TEST_CASE("a reading back leaves those that drain alone") {
  FakeDaemon daemon;
  auto cluster = shops();
  daemon.see(cluster);
  begin(daemon);
  for (int i = 0; i < 20; ++i) daemon.run();
  REQUIRE(daemon.reading());
  for (const int number : {1, 70}) {
    daemon.ipvs.set_connections(shop_key(number), kE2, 1, 0);
    put_shop(cluster, number, {test::e1()});
  }
  daemon.see(cluster);
  finish(daemon);
  daemon.wait(70s);
  for (const int number : {1, 70}) {
    CHECK(daemon.weights(shop_key(number)).at(kE2) == 0);
    daemon.ipvs.set_connections(shop_key(number), kE2, 0, 0);
  }
  daemon.wait(10s);
  CHECK(daemon.weights(shop_key(1)).size() == 1);
  CHECK_FALSE(daemon.says(kTold));
  // One that others removed meanwhile is no news.
  CHECK(daemon.differences() == Names{});
}

TEST_CASE(
    "what others removed of a deleted Service that finishes its connections takes its VIP along") {
  test::FakeDaemonSettings settings;
  settings.options.drain_deleted_services = true;
  FakeDaemon daemon(settings);
  auto cluster = shops();
  daemon.see(cluster);
  for (const auto& server : {kE1, kE2}) daemon.ipvs.set_connections(shop_key(50), server, 1, 0);
  remove_shop(cluster, 50);
  daemon.see(cluster);
  REQUIRE(daemon.is_bound(shop_ip(50)));
  const bool whole = GENERATE(false, true);
  if (whole) by_others(daemon, netlink::DeleteService{shop_key(50)});
  for (const auto& server : {kE1, kE2})
    if (!whole) by_others(daemon, netlink::DeleteServer{shop_key(50), server});
  begin(daemon);
  finish(daemon);
  CHECK(daemon.differences() == Names{});
}

TEST_CASE("rules of which nothing was known are right before anything is shown again") {
  FakeDaemon daemon;
  daemon.see(shops());
  daemon.rules.vanish();
  daemon.rules.faults.fail("list IPv4", netlink::make_error(Operation::rule, EBUSY, ""), 2);
  begin(daemon);
  finish(daemon);
  daemon.ipvs.vanish();
  daemon.wait(5s);
  CHECK(daemon.watch.broken == std::vector<std::string>{});
  CHECK(daemon.differences() == Names{});
}

TEST_CASE("a stop in the middle of a reading back reads no further") {
  FakeDaemon daemon;
  daemon.see(shops());
  begin(daemon);
  for (int i = 0; i < 20; ++i) daemon.run();
  const auto listings = daemon.ipvs.server_listings();
  const auto writes = daemon.writes();
  std::stop_source stop;
  stop.request_stop();
  for (int i = 0; i < 5; ++i) daemon.run(stop.get_token());
  CHECK(daemon.ipvs.server_listings() == listings);
  CHECK(daemon.writes() == writes);
  daemon.restart();
  CHECK(daemon.see(shops()).empty());
}

TEST_CASE("flushed sets: source ranges are back before the firewall that they open") {
  FakeDaemon daemon;
  auto shop = test::web_service();
  shop.type = api::ServiceType::load_balancer;
  shop.load_balancer_ips = {ip("192.0.2.10")};
  shop.source_ranges = {test::prefix("203.0.113.0/24")};
  daemon.see(test::cluster_of({shop, test::slice_of(shop, 8080, {test::e1()})}));
  const auto before = daemon.dump();
  daemon.sets.vanish(false);
  CHECK(daemon.sets.is_empty("KUBE-LOAD-BALANCER-FW"));
  std::size_t shut = 0;
  daemon.sets.after = [&](const std::string& set, const ipset::ElementOp& op) {
    if (set != "KUBE-LOAD-BALANCER-FW" || !op.add) return;
    ++shut;
    CHECK_FALSE(daemon.sets.is_empty("KUBE-LOAD-BALANCER-SOURCE-CIDR"));
  };
  daemon.wait(70s);
  CHECK(shut == 1);
  CHECK(daemon.dump() == before);
}

TEST_CASE("what others change of what annotations ask for is put right by a reading") {
  auto cluster = test::web_with({test::e1(), test::e2()});
  auto web = cluster.services.at({"default", "web"});
  web.affinity_seconds = 60;
  web.annotations = {{"ipvs-proxier/affinity-mask", "24"},
                     {"ipvs-proxier/max-connections", "1000/800"},
                     {"ipvs-proxier/scheduler", "mh"},
                     {"ipvs-proxier/scheduler-flags", "mh-port"},
                     {"ipvs-proxier/weights", "local:4"}};
  cluster.put(web);
  FakeDaemon daemon;
  daemon.see(cluster);
  REQUIRE(daemon.differences().empty());
  const auto ours = daemon.ipvs.services().front();
  const auto* server = daemon.ipvs.server(test::kWeb, kE1);
  REQUIRE(server != nullptr);
  REQUIRE(server->weight == 4);
  REQUIRE(server->upper_threshold == 1000);
  const auto before = *server;
  const auto service_with = [&](auto change) -> netlink::IpvsOp {
    auto other = ours;
    change(other);
    return netlink::EditService{other};
  };
  const auto server_with = [&](auto change) -> netlink::IpvsOp {
    auto other = before;
    change(other);
    return netlink::EditServer{test::kWeb, other};
  };
  const std::vector<netlink::IpvsOp> others = {
      service_with([](auto& one) { one.scheduler = "rr"; }),
      service_with([](auto& one) { one.flags ^= netlink::kSchedulerFlag3; }),
      service_with([](auto& one) { one.flags ^= netlink::kOnePacket; }),
      service_with([](auto& one) { one.netmask_bits = 32; }),
      service_with([](auto& one) { one.timeout = 1; }),
      server_with([](auto& one) { one.weight = 1; }),
      server_with([](auto& one) { one.upper_threshold = 0, one.lower_threshold = 0; }),
      server_with([](auto& one) { one.lower_threshold = 1; })};
  for (const auto& op : others) {
    INFO(to_string(op));
    REQUIRE(daemon.ipvs.apply(std::span(&op, 1)).at(0));
    REQUIRE_FALSE(daemon.differences().empty());
    CHECK(daemon.wait(31s).written == Written{.ipvs = 1});
    CHECK(daemon.differences().empty());
  }
}

}  // namespace
}  // namespace ipvsproxier::sync

// Taking over from kube-proxy's other modes: what they left serves until all is programmed, then it
// goes, once.

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "ipset/rules/removal_catalog.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using ipset::Table;
using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using test::FakeDaemon;
using test::FakeDaemonSettings;
using Lines = std::vector<std::string>;

constexpr const char* kPortals = "-m comment --comment \"kubernetes service portals\" -j ";

void add_iptables_mode(test::FakeRuleTable& rules, Family family = Family::ipv4) {
  for (const std::string words :
       {"-N KUBE-SERVICES", "-N KUBE-SVC-A", "-N KUBE-SEP-A", "-A KUBE-SERVICES -j KUBE-SVC-A",
        "-A KUBE-SVC-A -j KUBE-SEP-A", "-A KUBE-SEP-A -j ACCEPT"})
    rules.edit(family, Table::nat, words);
  for (const std::string chain : {"PREROUTING", "OUTPUT"})
    rules.edit(family, Table::nat, "-A " + chain + " " + kPortals + "KUBE-SERVICES");
  rules.edit(family, Table::filter, "-N KUBE-NODEPORTS");
  rules.edit(family, Table::filter,
             "-A INPUT -m comment --comment \"kubernetes health check service ports\" -j "
             "KUBE-NODEPORTS");
}

// The chains to which packets from this node come first, in the table nat.
Lines first(const FakeDaemon& daemon, Family family) {
  return daemon.rules.lines(family, Table::nat).at("OUTPUT");
}

const Lines kBoth = {std::string(kPortals) + "KUBE-SERVICES-IPTABLES",
                     std::string(kPortals) + "KUBE-SERVICES"};
const Lines kOurs = {std::string(kPortals) + "KUBE-SERVICES"};

bool serves_the_old_way(const FakeDaemon& daemon, Family family = Family::ipv4) {
  auto lines = daemon.rules.lines(family, Table::nat);
  return first(daemon, family) == kBoth &&
         lines["KUBE-SERVICES-IPTABLES"] == Lines{"-j KUBE-SVC-A"} &&
         lines["KUBE-SVC-A"] == Lines{"-j KUBE-SEP-A"};
}

bool nothing_to_remove(FakeDaemon& daemon, Family family = Family::ipv4) {
  for (const auto& removal : ipset::iptables_mode_removals(family))
    if (*daemon.rules.remove(removal) != ipset::RemovedRules{}) return false;
  return true;
}

bool is_clean(FakeDaemon& daemon, Family family = Family::ipv4) {
  return nothing_to_remove(daemon, family) && first(daemon, family) == kOurs;
}

TEST_CASE("take-over: rules of iptables mode serve until the first sync is complete", "[item-13]") {
  FakeDaemon daemon;
  add_iptables_mode(daemon.rules);
  bool old_way_at_last_write = false;
  daemon.links.after = [&, watch = daemon.links.after](const netlink::AddressOp& op) {
    watch(op);
    old_way_at_last_write = serves_the_old_way(daemon);
  };
  CHECK(daemon.see(test::web_with({test::e1()})).settled);
  CHECK(old_way_at_last_write);
  CHECK(daemon.ipvs.contains(test::kWeb));
  CHECK(daemon.says("removed 4 chains and 3 jumps"));
  CHECK(is_clean(daemon));

  // Once per process, but every process looks.
  add_iptables_mode(daemon.rules);
  daemon.wait(std::chrono::minutes(1));
  CHECK(daemon.rules.lines(Family::ipv4, Table::nat)["KUBE-SVC-A"] == Lines{"-j KUBE-SEP-A"});
  daemon.restart();
  daemon.see(test::web_with({test::e1()}));
  CHECK(nothing_to_remove(daemon));
}

TEST_CASE("take-over: while something is missing the old rules stay") {
  FakeDaemon daemon;
  add_iptables_mode(daemon.rules);
  SECTION("a virtual service, however long that lasts") {
    daemon.ipvs.faults.fail("10.96.0.9", {ErrorKind::io, EIO, ""});
    CHECK_FALSE(daemon.see(test::web_with({test::e1()})).settled);
    daemon.wait(std::chrono::minutes(5));
    CHECK(serves_the_old_way(daemon));
    daemon.clear_faults();
    daemon.wait(std::chrono::minutes(1));
    CHECK(is_clean(daemon));
  }
  SECTION("an address, however long that lasts") {
    daemon.links.faults.fail("add address 10.96.0.9", {ErrorKind::io, EIO, ""});
    CHECK_FALSE(daemon.see(test::web_with({test::e1()})).settled);
    daemon.wait(std::chrono::minutes(5));
    CHECK(serves_the_old_way(daemon));
    daemon.clear_faults();
    daemon.wait(std::chrono::minutes(1));
    CHECK(is_clean(daemon));
  }
  SECTION("a real server, however long that lasts") {
    daemon.ipvs.faults.fail("add real server", {ErrorKind::io, ENOMEM, ""});
    CHECK_FALSE(daemon.see(test::web_with({test::e1()})).settled);
    daemon.wait(std::chrono::minutes(5));
    CHECK(serves_the_old_way(daemon));
    daemon.clear_faults();
    daemon.wait(std::chrono::minutes(1));
    CHECK(is_clean(daemon));
  }
  SECTION("objects that cannot be read") {
    auto cluster = test::web_with({test::e1()});
    cluster.complete = false;
    CHECK(daemon.see(cluster).settled);
    daemon.wait(std::chrono::minutes(1));
    CHECK(serves_the_old_way(daemon));
    cluster.complete = true;
    daemon.see(cluster);
    daemon.wait(std::chrono::minutes(1));
    CHECK(is_clean(daemon));
  }
  SECTION("a process that ends before it is done") {
    daemon.ipvs.faults.fail("10.96.0.9", {ErrorKind::io, EIO, ""});
    daemon.see(test::web_with({test::e1()}));
    daemon.restart();
    CHECK(serves_the_old_way(daemon));
    daemon.clear_faults();
    CHECK(daemon.see(test::web_with({test::e1()})).settled);
    CHECK(is_clean(daemon));
  }
}

// Services of both families; `bad` is an external IP besides.
model::ClusterState web_of_two_families(const std::optional<std::string>& bad = std::nullopt) {
  auto web = test::web_service();
  web.cluster_ips = {test::ip("10.96.0.9"), test::ip("fd00:96::9")};
  web.ip_families = {Family::ipv4, Family::ipv6};
  if (bad) web.external_ips = {test::ip(*bad)};
  return test::cluster_of({web, test::slice_of(web, 8080, {test::e1()}),
                           test::slice_of(web, 8080, {test::endpoint("fd00:244::3", "n1")}, "v6")});
}

TEST_CASE("take-over: a family that cannot be programmed keeps its rules, the other does not") {
  FakeDaemon daemon({.options = {}});
  for (const auto family : netlink::kFamilies) add_iptables_mode(daemon.rules, family);
  // net.ipv6.conf.default.disable_ipv6=1: net/ipv6/addrconf.c, addrconf_add_dev.
  daemon.links.faults.fail("add address fd00:", {ErrorKind::denied, EACCES, ""});
  CHECK_FALSE(daemon.see(web_of_two_families()).settled);
  CHECK(is_clean(daemon));
  daemon.wait(std::chrono::minutes(10));
  CHECK(serves_the_old_way(daemon, Family::ipv6));
  daemon.clear_faults();
  daemon.wait(std::chrono::minutes(1));
  CHECK(is_clean(daemon, Family::ipv6));
}

TEST_CASE("take-over: what is refused for what it is does not hold it up") {
  FakeDaemon daemon({.options = {}});
  for (const auto family : netlink::kFamilies) add_iptables_mode(daemon.rules, family);
  SECTION("an address") {
    CHECK(daemon.see(web_of_two_families("ff0e::1")).refused == 1);
  }
  SECTION("a real server") {
    auto cluster = web_of_two_families();
    cluster.put(
        test::slice_of(test::web_service(), 8080, {test::endpoint("239.1.1.1", "n2"), test::e1()}));
    CHECK(daemon.see(cluster).refused == 1);
  }
  CHECK(is_clean(daemon));
  CHECK(is_clean(daemon, Family::ipv6));
}

TEST_CASE("take-over: where all is refused, it is not for what it is") {
  FakeDaemon daemon;
  add_iptables_mode(daemon.rules);
  daemon.links.faults.fail("add address", {ErrorKind::malformed, EINVAL, ""});
  CHECK(daemon.see(test::web_with({test::e1()})).refused == 1);
  daemon.wait(std::chrono::minutes(10));
  CHECK(serves_the_old_way(daemon));
}

TEST_CASE("take-over: what cannot be removed is tried again and makes nothing unhealthy") {
  FakeDaemon daemon;
  add_iptables_mode(daemon.rules);
  daemon.rules.faults.fail("remove from IPv4 nat", {ErrorKind::busy, 0, "locked"});
  CHECK(daemon.see(test::web_with({test::e1()})).settled);
  CHECK(daemon.says("locked"));
  CHECK(serves_the_old_way(daemon));
  CHECK(daemon.rules.lines(Family::ipv4, Table::filter).at("INPUT").back().find("NODEPORTS") ==
        std::string::npos);
  daemon.clear_faults();
  daemon.wait(std::chrono::minutes(1));
  CHECK(is_clean(daemon));
}

TEST_CASE("take-over: tables of nftables mode go after the first complete sync") {
  std::vector<Family> asked;
  bool fails = true;
  FakeDaemon daemon(
      {.remove_nft_leftovers = [&](Family family) -> netlink::Result<ipset::RemovedNft> {
        asked.push_back(family);
        if (fails && family == Family::ipv6) return Error{ErrorKind::denied, EPERM, "nft"};
        if (family == Family::ipv6)
          return ipset::RemovedNft{.table = false, .jumps = 9, .chains = 11};
        return ipset::RemovedNft{.table = true};
      }});
  daemon.ipvs.faults.fail("10.96.0.9", {ErrorKind::io, EIO, ""});
  daemon.see(test::web_with({test::e1()}));
  CHECK(asked.empty());
  daemon.clear_faults();
  daemon.wait(std::chrono::seconds(31));
  CHECK(asked == std::vector{Family::ipv4, Family::ipv6});
  CHECK(daemon.says("removed its IPv4 table"));
  fails = false;
  daemon.wait(std::chrono::seconds(31));
  // What is gone is not asked for again.
  CHECK(asked == std::vector{Family::ipv4, Family::ipv6, Family::ipv6});
  CHECK(daemon.says("with iptables-nft: removed 11 chains and 9 jumps of IPv6"));
  daemon.wait(std::chrono::minutes(2));
  CHECK(asked.size() == 3);
}

TEST_CASE("take-over: what nf_tables drops by policy is told once") {
  bool fails = true;
  FakeDaemon daemon(
      {.remove_nft_leftovers = [&](Family family) -> netlink::Result<ipset::RemovedNft> {
        if (family == Family::ipv4)
          return ipset::RemovedNft{.held_back = {"ip filter KUBE-FORWARD"}};
        if (fails) return Error{ErrorKind::denied, EPERM, "nft"};
        return ipset::RemovedNft{};
      }});
  daemon.see(test::web_with({test::e1()}));
  CHECK(daemon.says("chain ip filter KUBE-FORWARD of a kube-proxy with iptables-nft stays"));
  CHECK(daemon.says("drops"));
  fails = false;
  daemon.wait(std::chrono::seconds(31));
  const auto log = daemon.log();
  CHECK(log.find("KUBE-FORWARD") == log.rfind("KUBE-FORWARD"));
}

// A kube-router that has ended, whose endpoint 10.244.0.99 has, too.
void add_kube_router(FakeDaemon& daemon) {
  daemon.links.add_link("kube-dummy-if", "dummy");
  daemon.links.add_address({"kube-dummy-if", test::ip("10.96.0.7"), 32});
  daemon.links.add_address({"kube-dummy-if", test::ip("192.0.2.70"), 32});
  // No daemon of ours sees it.
  const auto watch = std::exchange(daemon.ipvs.after, nullptr);
  for (const auto* address : {"10.96.0.7", "192.0.2.70", "192.0.2.99"}) {
    const std::vector<netlink::IpvsOp> ops{netlink::AddService{
        {.key = {test::ip(address), netlink::Protocol::tcp, 80}, .scheduler = "lc"}}};
    REQUIRE(daemon.ipvs.apply(ops).at(0));
  }
  daemon.ipvs.after = watch;
  REQUIRE(daemon.sets.ensure({.name = "kube-router-svip", .kind = ipset::SetKind::hash_ip}));
  REQUIRE(daemon.sets.ensure({.name = "kube-router-node-ips", .kind = ipset::SetKind::hash_ip}));
  daemon.rules.edit(Family::ipv4, Table::filter, "-N KUBE-ROUTER-SERVICES");
  daemon.rules.edit(Family::ipv4, Table::filter, "-A KUBE-ROUTER-SERVICES -j REJECT");
  daemon.rules.edit(Family::ipv4, Table::filter, "-A INPUT -j KUBE-ROUTER-SERVICES");
}

bool has_virtual_service(const FakeDaemon& daemon, const char* address) {
  return daemon.ipvs.contains({test::ip(address), netlink::Protocol::tcp, 80});
}

api::Service balanced_web() {
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.load_balancer_ips = {test::ip("192.0.2.70")};
  return web;
}

TEST_CASE("take-over: what kube-router's service proxy left is a predecessor's") {
  FakeDaemon daemon;
  add_kube_router(daemon);
  const auto web = balanced_web();
  const auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})});
  CHECK(daemon.see(cluster).settled);
  CHECK(has_virtual_service(daemon, "192.0.2.70"));
  CHECK(daemon.weights({test::ip("192.0.2.70"), netlink::Protocol::tcp, 80}).contains(test::kE1));
  CHECK(daemon.is_bound("192.0.2.70"));
  CHECK_FALSE(has_virtual_service(daemon, "10.96.0.7"));  // no Service has it any more
  CHECK(has_virtual_service(daemon, "192.0.2.99"));       // of another program
  CHECK(
      daemon.says("took over from kube-router's service proxy: removed 1 chains, 1 jumps and 1 "
                  "sets of IPv4"));
  CHECK_FALSE(daemon.rules.lines(Family::ipv4, Table::filter).contains("KUBE-ROUTER-SERVICES"));
  CHECK_FALSE(daemon.sets.list("kube-router-svip")->has_value());
  CHECK(daemon.sets.list("kube-router-node-ips")->has_value());
}

TEST_CASE("take-over: under --kube-proxy-compat what kube-router left stays") {
  FakeDaemonSettings settings;
  settings.options.differences.take_over_kube_router = false;
  FakeDaemon daemon(settings);
  add_kube_router(daemon);
  const auto web = balanced_web();
  daemon.see(test::cluster_of({web, test::slice_of(web, 8080, {test::e1()})}));
  CHECK(has_virtual_service(daemon, "10.96.0.7"));
  CHECK(daemon.rules.lines(Family::ipv4, Table::filter).contains("KUBE-ROUTER-SERVICES"));
  CHECK(daemon.sets.list("kube-router-svip")->has_value());
}

}  // namespace
}  // namespace ipvsproxier::sync

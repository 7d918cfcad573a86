// Taking over from kube-proxy's other modes: what they left serves until all is programmed, then it
// goes, once.

#include <cerrno>

#include <catch2/catch.hpp>

#include "ipset/removal_catalog.h"
#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using ipset::Table;
using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using test::FakeDaemon;
using Lines = std::vector<std::string>;

constexpr const char* kPortals = "-m comment --comment \"kubernetes service portals\" -j ";

void add_iptables_mode(test::FakeRuleTable& rules) {
  for (const std::string words :
       {"-N KUBE-SERVICES", "-N KUBE-SVC-A", "-N KUBE-SEP-A", "-A KUBE-SERVICES -j KUBE-SVC-A",
        "-A KUBE-SVC-A -j KUBE-SEP-A", "-A KUBE-SEP-A -j ACCEPT"})
    rules.edit(Family::ipv4, Table::nat, words);
  for (const std::string chain : {"PREROUTING", "OUTPUT"})
    rules.edit(Family::ipv4, Table::nat, "-A " + chain + " " + kPortals + "KUBE-SERVICES");
  rules.edit(Family::ipv4, Table::filter, "-N KUBE-NODEPORTS");
  rules.edit(Family::ipv4, Table::filter,
             "-A INPUT -m comment --comment \"kubernetes health check service ports\" -j "
             "KUBE-NODEPORTS");
}

// The chains to which packets from this node come first, in the table nat.
Lines first(const FakeDaemon& daemon) {
  return daemon.rules.lines(Family::ipv4, Table::nat).at("OUTPUT");
}

const Lines kBoth = {std::string(kPortals) + "KUBE-SERVICES-IPTABLES",
                     std::string(kPortals) + "KUBE-SERVICES"};
const Lines kOurs = {std::string(kPortals) + "KUBE-SERVICES"};

bool serves_the_old_way(const FakeDaemon& daemon) {
  auto lines = daemon.rules.lines(Family::ipv4, Table::nat);
  return first(daemon) == kBoth && lines["KUBE-SERVICES-IPTABLES"] == Lines{"-j KUBE-SVC-A"} &&
         lines["KUBE-SVC-A"] == Lines{"-j KUBE-SEP-A"};
}

bool nothing_to_remove(FakeDaemon& daemon) {
  for (const auto& removal : ipset::iptables_mode_removals(Family::ipv4))
    if (*daemon.rules.remove(removal) != ipset::RemovedRules{}) return false;
  return true;
}

bool is_clean(FakeDaemon& daemon) {
  return nothing_to_remove(daemon) && first(daemon) == kOurs;
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
  SECTION("an address alone, no longer than a sync period") {
    daemon.links.faults.fail("add address 10.96.0.9", {ErrorKind::io, EIO, ""});
    CHECK_FALSE(daemon.see(test::web_with({test::e1()})).settled);
    daemon.wait(std::chrono::seconds(29));
    CHECK(serves_the_old_way(daemon));
    daemon.wait(std::chrono::seconds(10));
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
  CHECK(asked.size() == 4);
  CHECK(daemon.says("with iptables-nft: removed 11 chains and 9 jumps of IPv6"));
  daemon.wait(std::chrono::minutes(2));
  CHECK(asked.size() == 4);
}

TEST_CASE("take-over: what nf_tables drops by policy is told once") {
  bool fails = true;
  FakeDaemon daemon(
      {.remove_nft_leftovers = [&](Family family) -> netlink::Result<ipset::RemovedNft> {
        if (family == Family::ipv4)
          return ipset::RemovedNft{.held_back = {"ip filter KUBE-FORWARD"}, .warnings = {"drops"}};
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

}  // namespace
}  // namespace ipvsproxier::sync

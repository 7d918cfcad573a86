// Tables of nftables mode, in a network namespace of this host's own kernel: the scratch kernel has
// no tables of these families. Without the privilege to make a namespace, or where this kernel has
// no nf_tables either, nothing can be shown: exit status 77.

#include "ipset/nft/nft_leftovers.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "ipset/nftables/filter_kernel.h"
#include "test/support/nft_namespace.h"
#include "test/support/paths.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using test::enter_namespace;
using test::nft;

std::unique_ptr<KernelFilterTable> nftables() {
  auto opened = KernelFilterTable::open();
  REQUIRE(opened);
  return *std::move(opened);
}

RemovedNft removed(Family family) {
  auto result = remove_nft_leftovers(*nftables(), family);
  if (!result) FAIL(to_string(result.error()));
  return *result;
}

std::string shell(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  REQUIRE(pclose(pipe) == 0);
  return text;
}

// As kube-proxy's: a chain of its own that a hook reaches, a map, and a rule that looks into it.
constexpr const char* kIpv4 =
    "add table ip kube-proxy; add chain ip kube-proxy services;"
    "add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict; };"
    "add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100; };"
    "add rule ip kube-proxy nat-prerouting jump services;"
    "add rule ip kube-proxy services ip daddr . meta l4proto . th dport vmap @service-ips;"
    "add element ip kube-proxy service-ips { 10.96.0.9 . tcp . 80 : drop };";

TEST_CASE("tables of kube-proxy's nftables mode are removed, and no others") {
  enter_namespace();
  REQUIRE(nft("flush ruleset") == "");
  REQUIRE(nft(std::string(kIpv4) +
              "add table ip6 kube-proxy; add chain ip6 kube-proxy services;"
              "add table ip kube-proxy-of-mine; add table inet kube-proxy; add table ip filter") ==
          "");
  for (const auto family : netlink::kFamilies) {
    INFO(to_string(family));
    CHECK(removed(family) == RemovedNft{.table = true});
    CHECK(removed(family) == RemovedNft{});
  }
  CHECK(nft("list tables") ==
        "table ip kube-proxy-of-mine\ntable inet kube-proxy\ntable ip filter\n");
}

// The rules of iptables mode, as in the tests of taking over, written by iptables-nft.
TEST_CASE("rules that kube-proxy wrote through iptables-nft are removed, and no others") {
  enter_namespace();
  const auto [family, tool, rules] = GENERATE(
      table<Family, std::string, std::string>({{Family::ipv4, "iptables-nft", "ipv4.rules"},
                                               {Family::ipv6, "ip6tables-nft", "ipv6.rules"}}));
  CAPTURE(tool);
  REQUIRE(nft("flush ruleset") == "");
  const std::string folder = test::data_path("reference/iptables_mode/");
  const auto restore = [&, tool = tool](const std::string& file) {
    shell(tool + "-restore --noflush <'" + folder + file + "'");
  };
  // Without comments and counters, which are times and luck.
  const auto saved = tool + "-save 2>/dev/null | sed -e '/^#/d' -e 's/ \\[.*//'";
  restore("kubelet.rules");
  shell(tool + " -t nat -N MINE && " + tool + " -t nat -A MINE -p tcp --dport 1 -j ACCEPT && " +
        tool + " -t nat -A PREROUTING -m comment --comment mine -j MINE");
  const auto before = shell(saved);
  restore(rules);
  // Of ipvs mode.
  shell(tool + " -t nat -N KUBE-NODE-PORT && " + tool + " -N KUBE-IPVS-FILTER && " + tool +
        " -I INPUT -m comment --comment 'kubernetes ipvs access filter' -j KUBE-IPVS-FILTER");
  const auto first = removed(family);
  CHECK(first.chains > 20);
  CHECK(first.jumps > 8);
  CHECK_FALSE(first.table);
  CHECK(shell(saved) == before);
  CHECK(removed(family) == RemovedNft{});
  CHECK(shell(saved) == before);
}

// As CNI portmap and CRI-O do for host ports.
TEST_CASE("chains of iptables-nft to which rules of others lead stay, and the rest goes") {
  enter_namespace();
  const auto [family, tool, name] = GENERATE(table<Family, std::string, std::string>(
      {{Family::ipv4, "iptables-nft", "ip"}, {Family::ipv6, "ip6tables-nft", "ip6"}}));
  CAPTURE(tool);
  REQUIRE(nft("flush ruleset") == "");
  const auto saved = tool + "-save 2>/dev/null | sed -e '/^#/d' -e 's/ \\[.*//'";
  shell("for c in KUBE-MARK-MASQ KUBE-SERVICES KUBE-SVC-A CNI-DN-1; do " + tool +
        " -t nat -N $c; done; " + tool +
        " -t nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000; " + tool +
        " -t nat -A KUBE-SERVICES -j KUBE-SVC-A; " + tool +
        " -t nat -A KUBE-SVC-A -j KUBE-MARK-MASQ; " + tool +
        " -t nat -A PREROUTING -j KUBE-SERVICES; " + tool +
        " -t nat -A CNI-DN-1 -j KUBE-MARK-MASQ; " + tool + " -t nat -A CNI-DN-1 -j KUBE-SVC-A");
  const std::string others =
      "*nat\n:PREROUTING ACCEPT\n:INPUT ACCEPT\n:OUTPUT ACCEPT\n:POSTROUTING ACCEPT\n:CNI-DN-1 -\n"
      ":KUBE-MARK-MASQ -\n:KUBE-SVC-A -\n-A CNI-DN-1 -j KUBE-MARK-MASQ\n-A CNI-DN-1 -j "
      "KUBE-SVC-A\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n";
  const std::vector<std::string> stay{name + " nat KUBE-MARK-MASQ", name + " nat KUBE-SVC-A"};
  CHECK(removed(family) == RemovedNft{.jumps = 1, .chains = 1, .in_use = stay});
  CHECK(shell(saved) == others);
  CHECK(removed(family) == RemovedNft{.in_use = stay});
  CHECK(shell(saved) == others);
}

TEST_CASE("chains of iptables-nft to which an element of a map leads stay, empty") {
  enter_namespace();
  REQUIRE(nft("flush ruleset; add table ip nat; add chain ip nat KUBE-SVC-A; add chain ip nat "
              "KUBE-SVC-B; add rule ip nat KUBE-SVC-A counter; add map ip nat mine { type "
              "ipv4_addr : verdict; }; add element ip nat mine { 192.0.2.1 : jump KUBE-SVC-A }") ==
          "");
  CHECK(removed(Family::ipv4) == RemovedNft{.in_use = {"ip nat KUBE-SVC-A", "ip nat KUBE-SVC-B"}});
  CHECK(nft("list chain ip nat KUBE-SVC-A").find("counter") == std::string::npos);
}

TEST_CASE("kube-proxy translates destinations through its table, and through iptables-nft") {
  enter_namespace();
  const auto translates = [](Family family) {
    const auto found = nft_translates(*nftables(), family);
    REQUIRE(found);
    return *found;
  };
  REQUIRE(nft("flush ruleset; add table ip nat; add chain ip nat KUBE-SERVICES; add chain ip nat "
              "KUBE-NODE-PORT; add table ip filter; add chain ip filter KUBE-SEP-A; add table inet "
              "kube-proxy; add chain inet kube-proxy services; add table ip6 kube-proxy") == "");
  CHECK_FALSE(translates(Family::ipv4));
  CHECK_FALSE(translates(Family::ipv6));
  REQUIRE(nft("add chain ip nat KUBE-SEP-A; add chain ip6 kube-proxy services") == "");
  CHECK(translates(Family::ipv4));
  CHECK(translates(Family::ipv6));
  REQUIRE(
      nft("delete chain ip nat KUBE-SEP-A; add table ip kube-proxy; add chain ip kube-proxy a") ==
      "");
  CHECK(translates(Family::ipv4));
}

// What the legacy tables accept does not help where another base chain drops.
TEST_CASE("chains of iptables-nft that accept what their table drops by policy are held back") {
  enter_namespace();
  const auto [family, tool, name] = GENERATE(table<Family, std::string, std::string>(
      {{Family::ipv4, "iptables-nft", "ip"}, {Family::ipv6, "ip6tables-nft", "ip6"}}));
  CAPTURE(tool);
  REQUIRE(nft("flush ruleset") == "");
  const auto saved = tool + "-save 2>/dev/null | sed -e '/^#/d' -e 's/ \\[.*//'";
  shell(tool + " -P FORWARD DROP; for c in KUBE-FORWARD KUBE-NODE-PORT KUBE-IPVS-FILTER; do " +
        tool + " -N $c; done; " + tool +
        " -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT; " + tool +
        " -I FORWARD -m comment --comment 'kubernetes forwarding rules' -j KUBE-FORWARD; " + tool +
        " -I INPUT -j KUBE-IPVS-FILTER; " + tool + " -I INPUT -j KUBE-NODE-PORT");
  const auto taken = take_over_nft_leftovers(*nftables(), family);
  REQUIRE(taken);
  CHECK(taken->held_back == std::vector<std::string>{name + " filter KUBE-FORWARD"});
  CHECK(taken->chains == 2);
  CHECK(taken->jumps == 2);
  CHECK(shell(saved) ==
        "*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n:KUBE-FORWARD -\n"
        "-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n"
        "-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\nCOMMIT\n");
  // A chain to which one that stays leads stays as well.
  shell(tool + " -N KUBE-PROXY-FIREWALL; " + tool + " -A KUBE-FORWARD -j KUBE-PROXY-FIREWALL");
  const auto again = take_over_nft_leftovers(*nftables(), family);
  REQUIRE(again);
  CHECK(again->in_use == std::vector<std::string>{name + " filter KUBE-PROXY-FIREWALL"});
  CHECK(again->chains == 0);
  shell(tool + " -F KUBE-FORWARD; " + tool + " -X KUBE-PROXY-FIREWALL");
  // To hand a node back is another thing.
  CHECK(removed(family) == RemovedNft{.jumps = 1, .chains = 1});
}

}  // namespace
}  // namespace ipvsproxier::ipset

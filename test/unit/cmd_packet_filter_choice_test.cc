#include "ipset/rules/packet_filter_choice.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>
#include <catch2/catch.hpp>

#include "cmd/packet_filter_facts.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/sets/set_catalog.h"
#include "test/fakes/fake_filter_table.h"

namespace ipvsproxier::cmd {
namespace {

using ipset::choose_packet_filter;
using ipset::PacketFilter;
using ipset::PacketFilterChoice;
using Facts = ipset::PacketFilterFacts;
using Wish = ipset::PacketFilterWish;

PacketFilter chosen(const Facts& facts) {
  return choose_packet_filter(Wish::automatic, false, facts).value().filter;
}

std::string refused(Wish wish, bool compat, const Facts& facts) {
  const auto choice = choose_packet_filter(wish, compat, facts);
  REQUIRE_FALSE(choice);
  CHECK(choice.error().kind == netlink::ErrorKind::unsupported);
  return to_string(choice.error());
}

TEST_CASE("the packet filter by what is there, row by row of docs/operations.md") {
  Facts both{.iptables_works = true, .nftables_works = true};
  auto ours = both;
  ours.has_nft_table = ours.has_kubernetes_chains = true;
  CHECK(chosen(ours) == PacketFilter::nftables);
  auto kubernetes = both;
  kubernetes.has_kubernetes_chains = true;
  CHECK(chosen(kubernetes) == PacketFilter::iptables);
  auto others = both;
  others.has_iptables_tables = true;
  CHECK(chosen(others) == PacketFilter::iptables);
  CHECK(chosen(both) == PacketFilter::nftables);
  auto foreign = both;
  foreign.has_foreign_nft_table = true;
  CHECK(chosen(foreign) == PacketFilter::iptables);
  foreign.iptables_works = false;
  CHECK(chosen(foreign) == PacketFilter::nftables);
  // Of the other family.
  ours.has_foreign_nft_table = true;
  CHECK(chosen(ours) == PacketFilter::nftables);
  CHECK(chosen({.iptables_works = true}) == PacketFilter::iptables);
  CHECK(chosen({.nftables_works = true}) == PacketFilter::nftables);
}

TEST_CASE("a packet filter that does not work is never chosen, whatever is there") {
  for (unsigned bits = 0; bits < 32; ++bits) {
    const Facts facts{.has_nft_table = (bits & 1) != 0,
                      .has_kubernetes_chains = (bits & 2) != 0,
                      .has_iptables_tables = (bits & 16) != 0,
                      .iptables_works = (bits & 4) != 0,
                      .nftables_works = (bits & 8) != 0};
    const auto choice = choose_packet_filter(Wish::automatic, false, facts);
    REQUIRE(choice.has_value() == (facts.iptables_works || facts.nftables_works));
    if (!choice) continue;
    CHECK((choice->filter == PacketFilter::nftables ? facts.nftables_works : facts.iptables_works));
    CHECK_FALSE(choice->reason.empty());
  }
}

TEST_CASE("legacy iptables that is in use and cannot be written is passed over, with the reason") {
  Facts facts{.has_kubernetes_chains = true,
              .has_iptables_tables = true,
              .nftables_works = true,
              .iptables_fault = "open the xtables lock /run/xtables.lock: Is a directory"};
  const auto choice = choose_packet_filter(Wish::automatic, false, facts);
  CHECK(choice == PacketFilterChoice{
                      PacketFilter::nftables,
                      "nothing here uses legacy iptables that works; although chains of Kubernetes "
                      "are in legacy iptables, legacy iptables cannot be used: open the xtables "
                      "lock /run/xtables.lock: Is a directory"});
  CHECK(refused(Wish::iptables, false, facts) ==
        "legacy iptables cannot be used: open the xtables lock /run/xtables.lock: Is a directory, "
        "which --packet-filter needs (unsupported)");
}

TEST_CASE("the packet filter that is asked for, or an error that says what it needs") {
  const Facts both{.iptables_works = true, .nftables_works = true};
  CHECK(choose_packet_filter(Wish::iptables, false, both) ==
        PacketFilterChoice{PacketFilter::iptables, "--packet-filter"});
  CHECK(choose_packet_filter(Wish::nftables, false, both) ==
        PacketFilterChoice{PacketFilter::nftables, "--packet-filter"});
  CHECK(choose_packet_filter(Wish::automatic, true, both) ==
        PacketFilterChoice{PacketFilter::iptables, "--kube-proxy-compat"});
  CHECK(refused(Wish::iptables, false, {.nftables_works = true}).find("iptable_nat") !=
        std::string::npos);
  CHECK(refused(Wish::automatic, true, {.nftables_works = true}).find("--kube-proxy-compat") !=
        std::string::npos);
  CHECK(refused(Wish::nftables, false, {.iptables_works = true}).find("nf_tables") !=
        std::string::npos);
  CHECK(refused(Wish::nftables, true, both).find("--packet-filter=nftables") != std::string::npos);
  CHECK(refused(Wish::automatic, false, {}).find("one of them") != std::string::npos);
}

// A kernel of which everything is known, and that counts what it is asked.
struct AskedKernel {
  test::FakeNfTables kernel;
  test::FakeFilterTable nftables{kernel, 1};
  std::vector<ipset::Table> tables;
  std::vector<std::string> chains;
  std::optional<netlink::Error> fault;  // of legacy iptables
  std::optional<netlink::Error> fault_of_ipv6;
  bool has_ipv6 = true;
  int asked_legacy = 0;

  PacketFilterQuestions questions(bool with_nftables = true) {
    return {.iptables_tables =
                [this](netlink::Family family) {
                  return family == netlink::Family::ipv4 ? tables : std::vector<ipset::Table>{};
                },
            .iptables_chains = [this](auto, auto) { return chains; },
            .iptables_works = [this](netlink::Family family) -> netlink::Status {
              ++asked_legacy;
              if (family == netlink::Family::ipv6 && fault_of_ipv6) return *fault_of_ipv6;
              return fault ? netlink::Status(*fault) : netlink::Status();
            },
            .has_ipv6 = [this] { return has_ipv6; },
            .nftables_works = [with_nftables] { return with_nftables; },
            .nftables = with_nftables ? &nftables : nullptr};
  }
};

TEST_CASE("the facts about packet filters; legacy iptables stays alone where our nft table is") {
  AskedKernel kernel;
  auto facts = packet_filter_facts(Wish::automatic, false, kernel.questions());
  CHECK(facts.nftables_works);
  CHECK_FALSE((facts.has_nft_table || facts.has_kubernetes_chains || facts.has_iptables_tables));
  // Asking would have made tables.
  CHECK(kernel.asked_legacy == 0);
  kernel.tables = {ipset::Table::nat};
  kernel.chains = {"PREROUTING", "DOCKER"};
  facts = packet_filter_facts(Wish::automatic, false, kernel.questions());
  CHECK((!facts.has_kubernetes_chains && facts.has_iptables_tables && facts.iptables_works));
  kernel.chains = {"KUBE-KUBELET-CANARY"};
  facts = packet_filter_facts(Wish::automatic, false, kernel.questions());
  CHECK(facts.has_kubernetes_chains);
  const int before = kernel.asked_legacy;
  ipset::NftSetTable sets(kernel.nftables);
  REQUIRE(sets.ensure(ipset::set_spec(ipset::SetId::nft_vips, netlink::Family::ipv6)));
  facts = packet_filter_facts(Wish::automatic, false, kernel.questions());
  CHECK((facts.has_nft_table && facts.nftables_works));
  CHECK(kernel.asked_legacy == before);
}

TEST_CASE("a table of our name tells by its contents whether nf_tables is ours") {
  AskedKernel kernel;
  const auto key = ipset::nft_table_of(netlink::Family::ipv4);
  netlink::NftUnit unit{{netlink::NftAddTable{key}}};
  REQUIRE(kernel.nftables.apply({&unit, 1}).front());
  auto facts = packet_filter_facts(Wish::automatic, false, kernel.questions());
  CHECK_FALSE((facts.has_nft_table || facts.has_foreign_nft_table));
  CHECK(kernel.asked_legacy == 0);
  const netlink::NftBase base{.type = "filter", .hook = netlink::NftHook::input, .priority = 0};
  unit = {{netlink::NftAddChain{key, {.name = "input", .base = base}}}};
  REQUIRE(kernel.nftables.apply({&unit, 1}).front());
  facts = packet_filter_facts(Wish::automatic, false, kernel.questions());
  CHECK((!facts.has_nft_table && facts.has_foreign_nft_table && facts.iptables_works));
}

TEST_CASE("a table of nf_tables that cannot be listed counts as ours for the choice alone") {
  AskedKernel kernel;
  kernel.nftables.faults.fail("list ip kube-ipvs", {netlink::ErrorKind::busy, EBUSY, ""});
  CHECK(packet_filter_facts(Wish::automatic, false, kernel.questions()).has_nft_table);
  CHECK_FALSE(has_our_nft_table(kernel.nftables));
}

TEST_CASE("what a daemon uses is the choice, or iptables that is tried again") {
  AskedKernel kernel;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  const auto settled = [&](Wish wish, const PacketFilterQuestions& questions) {
    return settle_packet_filter(wish, false, questions, logger);
  };
  CHECK(settled(Wish::automatic, kernel.questions())->filter == PacketFilter::nftables);
  // A dry run on a node where nf_tables is not loaded yet has no table to ask.
  auto could_load = kernel.questions();
  could_load.nftables = nullptr;
  CHECK(settled(Wish::automatic, could_load)->filter == PacketFilter::nftables);
  kernel.fault = netlink::Error{netlink::ErrorKind::missing, ENOENT, "no module"};
  const auto absent = settled(Wish::iptables, kernel.questions(false));
  REQUIRE(absent);
  CHECK(absent->filter == PacketFilter::iptables);
  CHECK(absent->reason.find("iptable_nat") != std::string::npos);
  CHECK(settled(Wish::automatic, kernel.questions(false))->filter == PacketFilter::iptables);
  CHECK_FALSE(settled(Wish::nftables, kernel.questions(false)));
}

TEST_CASE("legacy iptables without IPv6 is used if nothing else is there, or no IPv6") {
  AskedKernel kernel;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  kernel.tables = {ipset::Table::nat};
  kernel.fault_of_ipv6 = netlink::Error{netlink::ErrorKind::missing, ENOENT, "no ip6_tables"};
  const auto settled = [&](const PacketFilterQuestions& questions) {
    return settle_packet_filter(Wish::automatic, false, questions, logger).value();
  };
  const auto choice = settled(kernel.questions());
  CHECK(choice.filter == PacketFilter::nftables);
  CHECK(choice.reason.find("for IPv6: no ip6_tables") != std::string::npos);
  CHECK(settled(kernel.questions(false)).filter == PacketFilter::iptables);
  kernel.has_ipv6 = false;
  CHECK(settled(kernel.questions()).filter == PacketFilter::iptables);
}

TEST_CASE("no legacy table is read once chains of Kubernetes were found") {
  AskedKernel kernel;
  kernel.tables = {ipset::Table::nat, ipset::Table::filter};
  kernel.chains = {"KUBE-SERVICES"};
  int read = 0;
  auto questions = kernel.questions();
  questions.iptables_chains = [&](auto, auto) {
    ++read;
    return kernel.chains;
  };
  CHECK(packet_filter_facts(Wish::automatic, false, questions).has_kubernetes_chains);
  CHECK(read == 1);
}

TEST_CASE("the facts about packet filters of a kernel without nf_tables, and what is asked for") {
  AskedKernel kernel;
  auto facts = packet_filter_facts(Wish::automatic, false, kernel.questions(false));
  CHECK((facts.iptables_works && !facts.nftables_works));
  CHECK(packet_filter_facts(Wish::iptables, false, kernel.questions()).iptables_works);
  CHECK(packet_filter_facts(Wish::automatic, true, kernel.questions()).iptables_works);
  kernel.asked_legacy = 0;
  CHECK(packet_filter_facts(Wish::nftables, false, kernel.questions()).nftables_works);
  CHECK(kernel.asked_legacy == 0);
}

}  // namespace
}  // namespace ipvsproxier::cmd

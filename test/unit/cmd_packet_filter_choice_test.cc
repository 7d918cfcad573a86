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
#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/set_catalog.h"
#include "test/fakes/fake_filter_table.h"
#include "test/support/ip.h"

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

constexpr const char* kDrops =
    "legacy IPv4 table filter: chain FORWARD drops what pods answer; add: a rule";

TEST_CASE("the packet filter by what is there, row by row of docs/operations.md") {
  const Facts both{.iptables_works = true, .nftables_works = true};
  CHECK(chosen(both) == PacketFilter::nftables);
  auto ours = both;
  ours.has_nft_table = ours.has_our_iptables = true;
  ours.only_iptables_accept = kDrops;
  CHECK(chosen(ours) == PacketFilter::nftables);
  auto sticky = both;
  sticky.has_our_iptables = true;
  CHECK(chosen(sticky) == PacketFilter::iptables);
  auto dropped = both;
  dropped.only_iptables_accept = kDrops;
  CHECK(chosen(dropped) == PacketFilter::iptables);
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
  for (unsigned bits = 0; bits < 64; ++bits) {
    const Facts facts{.has_nft_table = (bits & 1) != 0,
                      .has_foreign_nft_table = (bits & 32) != 0,
                      .has_our_iptables = (bits & 2) != 0,
                      .only_iptables_accept = (bits & 16) != 0 ? kDrops : "",
                      .iptables_works = (bits & 4) != 0,
                      .nftables_works = (bits & 8) != 0};
    const auto choice = choose_packet_filter(Wish::automatic, false, facts);
    REQUIRE(choice.has_value() == (facts.iptables_works || facts.nftables_works));
    if (!choice) continue;
    CHECK((choice->filter == PacketFilter::nftables ? facts.nftables_works : facts.iptables_works));
    CHECK_FALSE(choice->reason.empty());
  }
}

TEST_CASE("what decides and cannot be written is passed over, with the reason") {
  const Facts facts{.only_iptables_accept = kDrops,
                    .nftables_works = true,
                    .iptables_fault = "open the xtables lock /run/xtables.lock: Is a directory"};
  const auto choice = choose_packet_filter(Wish::automatic, false, facts);
  REQUIRE(choice);
  CHECK(choice->filter == PacketFilter::nftables);
  CHECK(choice->reason ==
        "nf_tables works here; although a chain of this host drops what only rules of legacy "
        "iptables can accept, legacy iptables cannot be used: open the xtables lock "
        "/run/xtables.lock: Is a directory");
  CHECK(refused(Wish::iptables, false, facts) ==
        "legacy iptables cannot be used: open the xtables lock /run/xtables.lock: Is a directory, "
        "which --packet-filter needs (unsupported)");
  const auto other = choose_packet_filter(Wish::automatic, false,
                                          {.has_nft_table = true,
                                           .iptables_works = true,
                                           .nftables_fault = "apply ip kube-ipvs-probe: refused"});
  REQUIRE(other);
  CHECK(other->reason ==
        "the kernel does not take our rules of nf_tables: apply ip kube-ipvs-probe: refused; "
        "although our table of nf_tables is there, the kernel does not take our rules of "
        "nf_tables: apply ip kube-ipvs-probe: refused");
}

TEST_CASE("the notes of a choice: what iptables lacks, what to allow, and how to hand back") {
  using Notes = std::vector<std::string>;
  const auto notes = [](const Facts& facts, Wish wish = Wish::automatic, bool compat = false) {
    return choose_packet_filter(wish, compat, facts).value().notes;
  };
  const std::string lacks(ipset::kIptablesLacks);
  const Facts both{.iptables_works = true, .nftables_works = true};
  CHECK(notes(both) == Notes{std::string(ipset::kHandBack)});
  CHECK(notes(both, Wish::iptables) == Notes{lacks});
  auto asked = both;
  asked.only_iptables_accept = kDrops;
  CHECK(notes(asked, Wish::nftables) == Notes{std::string(ipset::kHandBack), kDrops});
  CHECK(notes(both, Wish::automatic, true).empty());
  auto dropped = both;
  dropped.only_iptables_accept = kDrops;
  const Notes allow{lacks, "before --packet-filter=nftables: " + std::string(kDrops)};
  CHECK(notes(dropped) == allow);
  // On a node that stays with iptables what is to be allowed is still said, until it is.
  dropped.has_our_iptables = true;
  CHECK(notes(dropped) == allow);
  dropped.only_iptables_accept.clear();
  CHECK(notes(dropped) ==
        Notes{lacks,
              "nothing here needs legacy iptables: --packet-filter=nftables changes the node"});
  dropped.nftables_works = false;
  CHECK(notes(dropped) == Notes{lacks});
}

TEST_CASE("the packet filter that is asked for, or an error that says what it needs") {
  const Facts both{.iptables_works = true, .nftables_works = true};
  CHECK(choose_packet_filter(Wish::iptables, false, both) ==
        PacketFilterChoice{
            PacketFilter::iptables, "--packet-filter", {std::string(ipset::kIptablesLacks)}});
  CHECK(choose_packet_filter(Wish::nftables, false, both) ==
        PacketFilterChoice{
            PacketFilter::nftables, "--packet-filter", {std::string(ipset::kHandBack)}});
  CHECK(choose_packet_filter(Wish::automatic, true, both) ==
        PacketFilterChoice{PacketFilter::iptables, "--kube-proxy-compat", {}});
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
  std::optional<ipset::WholeTable> filter;  // legacy, of IPv4
  std::optional<ipset::WholeTable> filter_of_ipv6;
  std::optional<ipset::WholeTable> nat;
  std::optional<netlink::Error> unread;
  std::optional<netlink::Error> nft_fault_of_ipv6;
  std::optional<netlink::Error> fault;  // of legacy iptables
  std::optional<netlink::Error> fault_of_ipv6;
  bool has_ipv6 = true;
  int asked_legacy = 0;

  PacketFilterQuestions questions(bool with_nftables = true) {
    using Whole = std::optional<ipset::WholeTable>;
    return {.iptables_table = [this](netlink::Family family,
                                     ipset::Table table) -> netlink::Result<Whole> {
              if (family == netlink::Family::ipv6)
                return table == ipset::Table::filter ? filter_of_ipv6 : Whole();
              if (unread) return *unread;
              return table == ipset::Table::nat ? nat : filter;
            },
            .iptables_works = [this](netlink::Family family) -> netlink::Status {
              ++asked_legacy;
              if (family == netlink::Family::ipv6 && fault_of_ipv6) return *fault_of_ipv6;
              return fault ? netlink::Status(*fault) : netlink::Status();
            },
            .has_ipv6 = [this] { return has_ipv6; },
            .nftables_works = [this, with_nftables](netlink::Family family) -> netlink::Status {
              if (family == netlink::Family::ipv6 && nft_fault_of_ipv6) return *nft_fault_of_ipv6;
              if (with_nftables) return {};
              return netlink::Error{netlink::ErrorKind::missing, 0, ""};
            },
            .nftables = with_nftables ? &nftables : nullptr};
  }
  Facts facts(Wish wish = Wish::automatic, bool compat = false) {
    return packet_filter_facts(wish, compat, questions());
  }
};

// The filter table of a host that drops what it forwards, as docker has it.
ipset::WholeTable table_that_drops(const std::string& chain) {
  ipset::WholeTable table;
  for (const auto* name : {"INPUT", "FORWARD", "OUTPUT"}) {
    table.policies[name] = name == chain ? ipset::Verdict::drop : ipset::Verdict::accept;
    table.chains[name] = {};
  }
  return table;
}

// With our chains as this program, or kube-proxy, has them.
ipset::WholeTable with_chains(ipset::WholeTable table, bool ours) {
  auto parameters = ipset::least_parameters();
  parameters.short_paths = ours;
  for (const auto& rules : ipset::rules_for(netlink::Family::ipv4, parameters)) {
    if (rules.table != ipset::Table::filter) continue;
    for (const auto& chain : rules.chains) table.chains[chain.name] = chain.rules;
    for (const auto& jump : rules.jumps) {
      auto& base = table.chains[jump.from];
      base.insert(base.begin(), jump.rule);
    }
  }
  return table;
}

TEST_CASE("nf_tables is chosen wherever it works; legacy iptables is not asked in vain") {
  AskedKernel kernel;
  kernel.filter = with_chains(table_that_drops(""), false);
  auto facts = kernel.facts();
  CHECK(facts.nftables_works);
  CHECK_FALSE((facts.has_nft_table || facts.has_our_iptables));
  CHECK(facts.only_iptables_accept.empty());
  // Asking would have made tables.
  CHECK(kernel.asked_legacy == 0);
  CHECK(chosen(facts) == PacketFilter::nftables);
  kernel.filter = table_that_drops("FORWARD");
  facts = kernel.facts();
  CHECK(facts.iptables_works);
  const int before = kernel.asked_legacy;
  ipset::NftSetTable sets(kernel.nftables);
  REQUIRE(sets.ensure(ipset::set_spec(ipset::SetId::nft_vips, netlink::Family::ipv6)));
  facts = kernel.facts();
  CHECK((facts.has_nft_table && facts.nftables_works));
  CHECK(kernel.asked_legacy == before);
}

TEST_CASE("a chain that drops what only kube-proxy's rules of legacy iptables accept") {
  AskedKernel kernel;
  kernel.filter = table_that_drops("FORWARD");
  const std::string answers =
      "legacy IPv4 table filter: chain FORWARD drops what pods answer by its policy, and no rule "
      "of another table can let it through; add: iptables-legacy -I FORWARD";
  CHECK(kernel.facts().only_iptables_accept ==
        answers + " -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT");
  CHECK(chosen(kernel.facts()) == PacketFilter::iptables);
  // kube-proxy's rules are removed with the change to nf_tables.
  kernel.filter = with_chains(*kernel.filter, false);
  CHECK(kernel.facts().only_iptables_accept ==
        answers + " 3 -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT");
  kernel.filter->chains["FORWARD"].push_back(
      {.matches = {ipset::ConntrackStateMatch{.related = true, .established = true}},
       .target = ipset::Verdict::accept});
  CHECK(kernel.facts().only_iptables_accept.empty());
  kernel.filter = table_that_drops("INPUT");
  CHECK(kernel.facts().only_iptables_accept ==
        "legacy IPv4 table filter: chain INPUT drops what comes for health check node ports by its "
        "policy, and no rule of another table can let it through; add: iptables-legacy -I INPUT -p "
        "tcp --dport 30000:32767 -j ACCEPT");
  // What IPVS sends, neither packet filter can let through.
  kernel.filter = table_that_drops("OUTPUT");
  CHECK(kernel.facts().only_iptables_accept.empty());
}

TEST_CASE("a chain that ends with a rule that drops all is one whose policy drops") {
  AskedKernel kernel;
  kernel.filter = table_that_drops("");
  // What comes from elsewhere, such as answers to pods, is not known.
  const ipset::Rule some{
      .source = ipset::SourceMatch{.prefix = *netlink::IpPrefix::parse("10.244.0.0/16")},
      .target = ipset::Verdict::accept};
  kernel.filter->chains["FORWARD"] = {some};
  CHECK(kernel.facts().only_iptables_accept.empty());
  kernel.filter->chains["FORWARD"].push_back({.target = ipset::Verdict::drop});
  CHECK(kernel.facts().only_iptables_accept.find("chain FORWARD may drop what pods answer") !=
        std::string::npos);
  kernel.filter->chains["FORWARD"].back() = {
      .target = ipset::ForeignTarget{
          .description = "REJECT", .conditions = {}, .action = ipset::RejectAction{}}};
  CHECK(kernel.facts().only_iptables_accept.find("chain FORWARD may drop what pods answer") !=
        std::string::npos);
}

TEST_CASE("a legacy table that cannot be read stays decisive, if legacy iptables works") {
  AskedKernel kernel;
  kernel.unread = netlink::Error{netlink::ErrorKind::io, EIO, "read"};
  const auto facts = kernel.facts();
  CHECK(facts.only_iptables_accept.empty());
  const auto choice = choose_packet_filter(Wish::automatic, false, facts);
  REQUIRE(choice);
  CHECK(choice->filter == PacketFilter::iptables);
  CHECK(choice->reason ==
        "whether legacy IPv4 table filter drops packets of Services is not known: read: "
        "Input/output error (failed)");
  CHECK(choice->notes == std::vector<std::string>{std::string(ipset::kIptablesLacks)});
  kernel.fault = netlink::Error{netlink::ErrorKind::io, EIO, "list"};
  CHECK(chosen(kernel.facts()) == PacketFilter::nftables);
}

TEST_CASE("legacy iptables with both families comes before nf_tables without IPv6") {
  AskedKernel kernel;
  kernel.nft_fault_of_ipv6 = netlink::Error{netlink::ErrorKind::missing, ENOENT, "apply"};
  auto choice = choose_packet_filter(Wish::automatic, false, kernel.facts());
  REQUIRE(choice);
  CHECK(choice->filter == PacketFilter::iptables);
  CHECK(choice->reason.find("of nf_tables: for IPv6: apply") != std::string::npos);
  kernel.fault_of_ipv6 = kernel.nft_fault_of_ipv6;
  CHECK(chosen(kernel.facts()) == PacketFilter::nftables);
  kernel.fault_of_ipv6.reset();
  kernel.has_ipv6 = false;
  CHECK(chosen(kernel.facts()) == PacketFilter::nftables);
}

TEST_CASE("a node stays with what this program wrote; kube-proxy's rules decide nothing") {
  AskedKernel kernel;
  kernel.filter = with_chains(table_that_drops(""), true);
  CHECK(kernel.facts().has_our_iptables);
  CHECK(chosen(kernel.facts()) == PacketFilter::iptables);
  // Clients within the cluster, whom an earlier build served, are served by nf_tables.
  // The other family had none of them.
  kernel.filter_of_ipv6 = kernel.filter;
  kernel.nat.emplace();
  kernel.nat->chains["KUBE-IN-CLUSTER"] = {};
  CHECK_FALSE(kernel.facts().has_our_iptables);
  CHECK(chosen(kernel.facts()) == PacketFilter::nftables);
  kernel.nat.reset();
  kernel.filter_of_ipv6.reset();
  kernel.filter = with_chains(table_that_drops(""), false);
  CHECK_FALSE(kernel.facts().has_our_iptables);
}

TEST_CASE("a table of our name tells by its contents whether nf_tables is ours") {
  AskedKernel kernel;
  const auto key = ipset::nft_table_of(netlink::Family::ipv4);
  netlink::NftUnit unit{{netlink::NftAddTable{key}}};
  REQUIRE(kernel.nftables.apply({&unit, 1}).front());
  auto facts = kernel.facts();
  CHECK_FALSE((facts.has_nft_table || facts.has_foreign_nft_table));
  CHECK(kernel.asked_legacy == 0);
  const netlink::NftBase base{.type = "filter", .hook = netlink::NftHook::input, .priority = 0};
  unit = {{netlink::NftAddChain{key, {.name = "input", .base = base}}}};
  REQUIRE(kernel.nftables.apply({&unit, 1}).front());
  facts = kernel.facts();
  CHECK((!facts.has_nft_table && facts.has_foreign_nft_table && facts.iptables_works));
}

TEST_CASE("a table of nf_tables that cannot be listed counts as ours for the choice alone") {
  AskedKernel kernel;
  kernel.nftables.faults.fail("list ip kube-ipvs", {netlink::ErrorKind::busy, EBUSY, ""});
  CHECK(kernel.facts().has_nft_table);
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
  kernel.filter = table_that_drops("FORWARD");
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

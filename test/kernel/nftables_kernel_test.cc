// nf_tables by our own transactions, beside the program nft. User Mode Linux has no nf_tables:
// these run under a kernel of Debian (qemu_run.sh), or in network namespaces of a host that has it.

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <semaphore>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nftables/filter_kernel.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/sets/set_catalog.h"
#include "netlink/nftables/nftables_codec.h"
#include "netlink/nftables/nftables_monitor.h"
#include "test/contract/filter_contract.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

std::unique_ptr<ipset::KernelFilterTable> open_filter() {
  auto table = ipset::KernelFilterTable::open();
  if (!table) FAIL(to_string(table.error()));
  return std::move(*table);
}

struct KernelFilterWorld {
  FreshNetns netns;
  std::unique_ptr<ipset::KernelFilterTable> ours = open_filter();
  std::unique_ptr<ipset::KernelFilterTable> theirs = open_filter();

  ipset::FilterTable& table() { return *ours; }
  ipset::FilterTable& other() { return *theirs; }
};

TEST_CASE("kernel: tables of nf_tables keep the contract") {
  check_filter_contents_contract<KernelFilterWorld>();
}

TEST_CASE("kernel: nf_tables refuses what the fake refuses") {
  check_filter_refusal_contract<KernelFilterWorld>();
}

TEST_CASE("kernel: listings of nf_tables in parts keep the contract") {
  check_filter_parts_contract<KernelFilterWorld>();
}

// Everything of a table, in one unit.
NftUnit unit_of(const NftTableKey& table, const ipset::FilterContents& contents) {
  NftUnit unit{{NftAddTable{table}}};
  for (const auto& [name, set] : contents.sets) unit.ops.emplace_back(NftAddSet{table, set.spec});
  for (const auto& [name, chain] : contents.chains)
    unit.ops.emplace_back(NftAddChain{table, {name, chain.base}});
  for (const auto& [name, set] : contents.sets)
    unit.ops.emplace_back(NftAddElements{table, name, set.elements});
  for (const auto& [name, chain] : contents.chains)
    for (const auto& rule : chain.rules)
      unit.ops.emplace_back(NftAddRule{table, {name, rule.expressions}});
  return unit;
}

ipset::FilterContents contents_of(const NftTableKey& table) {
  const auto contents = open_filter()->list(table);
  if (!contents) FAIL(to_string(contents.error()));
  REQUIRE(contents->has_value());
  return **contents;
}

void check_same(const ipset::FilterContents& one, const ipset::FilterContents& other) {
  REQUIRE(one.chains.size() == other.chains.size());
  for (const auto& [name, chain] : one.chains) {
    INFO(name);
    const auto& same = other.chains.at(name);
    CHECK(chain.base == same.base);
    REQUIRE(chain.rules.size() == same.rules.size());
    for (std::size_t i = 0; i < chain.rules.size(); ++i)
      CHECK(chain.rules[i].expressions == same.rules[i].expressions);
  }
  REQUIRE(one.sets.size() == other.sets.size());
  for (const auto& [name, set] : one.sets) {
    INFO(name);
    CHECK(set.spec == other.sets.at(name).spec);
    CHECK(set.elements == other.sets.at(name).elements);
  }
}

// What nft says of all tables: words in order, as it lists elements in any order.
std::string nft_words() {
  return shell("nft -s list ruleset | tr -s ' \\t\\n,' '\\n' | sort");
}

TEST_CASE("kernel: what nft wrote is read, and what was read and written is the same to nft") {
  const std::vector<NftTableKey> tables = {{NftFamily::ip, "kube-ipvs"},
                                           {NftFamily::ip6, "kube-ipvs"}};
  std::vector<ipset::FilterContents> read;
  std::string words;
  {
    const FreshNetns netns;
    shell("nft -f " + data_word("kernel/nftables_table.nft"));
    for (const auto& table : tables) read.push_back(contents_of(table));
    words = nft_words();
  }
  CHECK(read[0].chains.size() == 11);
  CHECK(read[0].sets.size() == 8);
  CHECK(read[1].sets.at("services").elements.size() == 2);
  for (const auto& contents : read)
    for (const auto& [name, chain] : contents.chains)
      for (const auto& rule : chain.rules)
        for (const auto& expression : rule.expressions)
          CHECK_FALSE(std::holds_alternative<NftOtherExpression>(expression));
  const FreshNetns netns;
  std::vector<NftUnit> units;
  for (std::size_t i = 0; i < tables.size(); ++i) units.push_back(unit_of(tables[i], read[i]));
  must_apply(*open_filter(), units);
  CHECK(nft_words() == words);
  for (std::size_t i = 0; i < tables.size(); ++i) check_same(read[i], contents_of(tables[i]));
}

TEST_CASE("kernel: whatever others put into our table or beside it is listed") {
  KernelFilterWorld world;
  must_apply(world.table(), {filter_frame()});
  constexpr const char* kOdd = R"({
    counter hits { }
    map objects { type ipv4_addr : counter; elements = { 10.0.0.1 : "hits" }; }
    set timed { type ipv4_addr; flags timeout; elements = { 10.0.0.2 timeout 1h }; }
    map whole { type ipv4_addr : verdict; elements = { 10.0.0.1 : accept, * : drop }; }
    chain odd {
      limit rate 5/second accept
      ip ttl set 3
      ct mark set 1
      ip saddr { 192.0.2.1, 192.0.2.2 } drop
    }
  })";
  for (const std::string table : {"ip contract", "ip theirs", "inet contract"})
    shell("nft -f - <<'END'\ntable " + table + " " + kOdd + "\nEND");
  const auto contents = filter_contents(world.table());
  CHECK(contents.chains.at("input").rules[0].expressions == look_up_services());
  CHECK(contents.sets.at("timed").elements == std::vector<NftElement>{{.key = {10, 0, 0, 2}}});
  CHECK(contents.sets.at("whole").elements.size() == 2);
  CHECK(contents.sets.size() == 6);  // an anonymous one, too
  const auto& odd = contents.chains.at("odd").rules;
  REQUIRE(odd.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto unknown = [](const NftExpression& expression) {
      return std::holds_alternative<NftOtherExpression>(expression);
    };
    CHECK(std::ranges::any_of(odd[i].expressions, unknown));
  }
  // A repair deletes what is not wanted, by its number.
  must_apply(world.table(), {{{NftDeleteRule{kFilterTable, "odd", odd[3].handle}}},
                             {{NftFlushChain{kFilterTable, "odd"}}}});
}

TEST_CASE("kernel: a unit that no datagram holds costs itself only") {
  KernelFilterWorld world;
  must_apply(world.table(), {filter_frame()});
  NftAddElements huge{kFilterTable, "services", {}};
  for (std::uint32_t i = 0; i < 60000; ++i)
    huge.elements.push_back(leads(i, std::string(250, 'c')));
  const auto outcomes = world.table().apply(
      std::vector<NftUnit>{{{add_element("vips", {.key = filter_address(1)})}},
                           {{huge}},
                           {{add_element("vips", {.key = filter_address(2)})}}});
  CHECK(outcomes[0]);
  REQUIRE_FALSE(outcomes[1]);
  CHECK(outcomes[1].error().kind == ErrorKind::malformed);
  CHECK(outcomes[1].error().sys_errno == EMSGSIZE);
  CHECK(outcomes[2]);
}

// What exposes a virtual service, and what guards it.
TEST_CASE("kernel: elements of several sets, with source ranges, are one transaction") {
  using namespace ipset;
  KernelFilterWorld world;
  NftSetTable sets(world.table());
  const auto spec = [](SetId id) { return set_spec(id, Family::ipv4); };
  for (const auto id : kNftSetIds) REQUIRE(sets.ensure(spec(id)));
  const auto vip = *IpAddress::parse("10.96.0.1");
  const auto ops = [](std::initializer_list<Element> elements) {
    std::vector<ElementOp> result;
    for (const auto& element : elements) result.push_back({true, element});
    return result;
  };
  const auto ranges = ops({RangesElement{
      vip, Protocol::tcp, 80, {*IpPrefix::parse("10.1.0.0/16"), *IpPrefix::parse("10.3.0.0/16")}}});
  const auto services = ops({ServiceElement{vip, Protocol::tcp, 80, ServiceVerdict::keep}});
  const auto vips = ops({IpElement{vip}});
  const std::vector<SetTable::SetOps> all{{spec(SetId::nft_source_ranges), ranges},
                                          {spec(SetId::nft_services), services},
                                          {spec(SetId::nft_vips), vips}};
  auto channel = NlChannel::open(NETLINK_NETFILTER);
  REQUIRE(channel);
  const auto generation = [&] {
    return *decode_nft_generation(
        channel->query(Operation::nftables, encode_get_nft_generation()).value());
  };
  const auto before = generation();
  for (const auto& outcomes : sets.apply_all(all))
    for (const auto& outcome : outcomes) CHECK(outcome);
  CHECK(generation() == before + 1);
  const auto listed = [&](SetId id) {
    return sets.list(set_name(id, Family::ipv4)).value().value().elements.size();
  };
  CHECK(listed(SetId::nft_source_ranges) == 1);
  CHECK(listed(SetId::nft_services) == 1);
  CHECK(listed(SetId::nft_vips) == 1);
}

TEST_CASE("kernel: a transaction for another generation is refused as a whole") {
  const FreshNetns netns;
  auto channel = NlChannel::open(NETLINK_NETFILTER);
  REQUIRE(channel);
  const auto generation = [&] {
    const auto answer = channel->query(Operation::nftables, encode_get_nft_generation());
    REQUIRE(answer);
    return *decode_nft_generation(*answer);
  };
  const auto send = [&](std::uint32_t expected, const NftOp& op) {
    std::vector<Bytes> messages;
    append_nft_op(op, 1, messages);
    return channel->transact_batch(Operation::nftables, encode_nft_begin(expected), messages,
                                   encode_nft_end());
  };
  const auto before = generation();
  CHECK(send(before, NftAddTable{kFilterTable}).whole);
  CHECK(generation() == before + 1);
  const auto late = send(before, NftDeleteTable{kFilterTable});
  REQUIRE_FALSE(late.whole);
  CHECK(late.whole.error().kind == ErrorKind::busy);
  CHECK(late.whole.error().sys_errno == ERESTART);
  CHECK(late.refusals.empty());
  CHECK(send(generation(), NftDeleteTable{kFilterTable}).whole);
}

TEST_CASE("kernel: without the privilege nf_tables answers denied") {
  const FreshNetns netns;
  const WithoutNetAdmin unprivileged;
  CHECK(NftMonitor::open({kFilterTable}, 0).error().kind == ErrorKind::denied);
  const auto table = ipset::KernelFilterTable::open();
  if (!table) {
    CHECK(table.error().kind == ErrorKind::denied);
    return;
  }
  const auto outcomes = (*table)->apply(std::vector<NftUnit>(3, {{NftAddTable{kFilterTable}}}));
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().kind == ErrorKind::denied);
  }
}

// Somebody adds or removes a hundred elements at once while they are listed.
TEST_CASE("kernel: a part of a listing is a moment between two transactions") {
  KernelFilterWorld world;
  must_apply(world.table(), {filter_frame()});
  NftAddElements base{kFilterTable, "vips", {}};
  for (std::uint32_t i = 0; i < 3000; ++i) base.elements.push_back({.key = filter_address(i)});
  must_apply(world.table(), {{{base}}});
  NftAddElements more{kFilterTable, "vips", {}};
  for (std::uint32_t i = 0; i < 100; ++i)
    more.elements.push_back({.key = filter_address(100000 + 7 * i)});
  std::counting_semaphore<> begun(0);
  std::jthread changes([&](const std::stop_token& stop) {
    for (unsigned number = 1; !stop.stop_requested();) {
      if (!begun.try_acquire_for(std::chrono::milliseconds(100))) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(number * 137 % 3000));
      const NftOp change =
          number % 2 == 1 ? NftOp(more) : NftDeleteElements{kFilterTable, "vips", more.elements};
      world.other().apply(std::vector<NftUnit>{{{change}}});
      ++number;
    }
  });
  std::set<std::size_t> sizes;
  for (int i = 0; i < 30; ++i) {
    begun.release();
    const auto contents = world.table().list(kFilterTable);
    REQUIRE(contents);
    sizes.insert((*contents)->sets.at("vips").elements.size());
  }
  for (const auto size : sizes) CHECK((size == 3000 || size == 3100));
}

// A neighbour that changes its own table all the time, as a firewall with counters or bans does.
TEST_CASE("kernel: a busy table of a neighbour costs our listings nothing") {
  KernelFilterWorld world;
  must_apply(world.table(), {filter_frame()});
  NftAddElements base{kFilterTable, "vips", {}};
  for (std::uint32_t i = 0; i < 10000; ++i) base.elements.push_back({.key = filter_address(i)});
  must_apply(world.table(), {{{base}}});
  const NftTableKey theirs{NftFamily::ip6, "theirs"};
  std::size_t transactions = 0;
  std::size_t listings = 0;
  {
    const std::jthread neighbour([&](const std::stop_token& stop) {
      for (; !stop.stop_requested(); ++transactions)
        world.other().apply(std::vector<NftUnit>{{{NftAddTable{theirs}, NftDeleteTable{theirs}}}});
    });
    for (; listings < 3; ++listings) {
      const auto frame = world.table().list_frame(kFilterTable);
      REQUIRE(frame);
      auto part = world.table().begin_elements(kFilterTable, "vips");
      REQUIRE(part);
      std::size_t count = (*part)->elements.size();
      for (bool last = (*part)->last; !last;) {
        const auto next = world.table().next_elements();
        if (!next) FAIL(to_string(next.error()));
        count += next->elements.size();
        last = next->last;
      }
      CHECK(count == 10000);
    }
  }
  CHECK(transactions > 10);
}

TEST_CASE("kernel: changes of our table by others are told with the socket that asked for them") {
  KernelFilterWorld world;
  const auto monitor = NftMonitor::open({kFilterTable}, world.ours->port());
  REQUIRE(monitor);
  CHECK((*monitor)->fd() >= 0);
  CHECK((*monitor)->take().empty());
  must_apply(world.table(), {filter_frame()});
  CHECK((*monitor)->take().empty());
  must_apply(world.other(), {{{add_element("vips", {.key = filter_address(1)})}}});
  CHECK((*monitor)->take().changes == std::set<NftChange>{{kFilterTable, world.theirs->port()}});
  must_apply(world.other(), {{{NftAddTable{{NftFamily::ip6, "contract"}}}}});
  CHECK((*monitor)->take().empty());
  // A refused transaction changes nothing.
  CHECK(refused(world.other(), {{add_element("vips", {.key = filter_address(2)}),
                                 add_rule("absent", {})}}) == ErrorKind::missing);
  CHECK((*monitor)->take().empty());
  shell("nft flush ruleset");
  const auto events = (*monitor)->take();
  REQUIRE(events.changes.size() == 1);
  CHECK(events.changes.begin()->table == kFilterTable);
  CHECK(events.changes.begin()->port != world.ours->port());
  CHECK_FALSE(world.table().list(kFilterTable)->has_value());
}

TEST_CASE("kernel: lost notifications of nf_tables are an overrun") {
  KernelFilterWorld world;
  must_apply(world.table(), {filter_frame()});
  const auto opened = NftMonitor::open({kFilterTable}, world.ours->port(), 16 << 10);
  if (!opened) FAIL(to_string(opened.error()));
  const auto& monitor = *opened;
  std::vector<NftUnit> units;
  std::uint32_t next = 0;
  for (int i = 0; i < 5000; ++i)
    units.push_back({{add_element("services", leads(next++, "keep"))}});
  must_apply(world.other(), units);
  CHECK(monitor->take().overrun);
  CHECK(monitor->take().empty());
  for (auto& unit : units)
    std::get<NftAddElements>(unit.ops.front()).elements = {leads(next++, "keep")};
  must_apply(world.table(), units);
  CHECK(monitor->take().empty());
  must_apply(world.other(), {{{NftFlushSet{kFilterTable, "services"}}}});
  CHECK_FALSE(monitor->take().changes.empty());
}

}  // namespace
}  // namespace ipvsproxier::test

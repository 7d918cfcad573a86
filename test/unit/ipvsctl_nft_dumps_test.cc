// Packets through tables of nf_tables that other programs wrote, as a kernel listed them.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/ipvsctl/explain/nft_node.h"
#include "cmd/ipvsctl/explain/packet_walk.h"
#include "cmd/ipvsctl/explain/rule_walk.h"
#include "ipset/judge/nft_judge.h"
#include "ipset/judge/nft_lookup.h"
#include "test/support/dumped_tables.h"
#include "test/support/ip.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;
using test::ip;

// This node has 10.200.0.2 at eth0, behind which everything is but its pods, who are behind cni0.
class DumpHost final : public netlink::HostReader {
 public:
  netlink::Result<std::vector<netlink::LinkRecord>> links() override {
    return std::vector<netlink::LinkRecord>{
        {.index = 1, .name = "lo"}, {.index = 2, .name = "eth0"}, {.index = 3, .name = "cni0"}};
  }
  netlink::Result<std::vector<netlink::AddressRecord>> addresses() override {
    return std::vector<netlink::AddressRecord>{at("10.200.0.2", 24, 2), at("10.244.0.1", 24, 3),
                                               at("fd00:200::2", 64, 2), at("fd00:244::1", 64, 3)};
  }
  netlink::Result<std::vector<netlink::Listener>> listeners() override {
    std::vector<netlink::Listener> listeners;
    for (const auto family : netlink::kFamilies)
      for (const auto port : std::initializer_list<std::uint16_t>{22, 80, 81, 443})
        for (const auto protocol : {Protocol::tcp, Protocol::udp})
          listeners.push_back({protocol, IpAddress::any(family), port, false});
    return listeners;
  }
  netlink::Result<netlink::Route> route(const netlink::RouteQuestion& question) override {
    const auto& to = question.destination;
    const auto own = *addresses();
    const bool v4 = to.family() == Family::ipv4;
    if (to.is_loopback() || std::ranges::count(own, to, &netlink::AddressRecord::address) != 0)
      return netlink::Route{.local = true, .out_link = 1, .source = to};
    const auto pods = *netlink::IpPrefix::parse(v4 ? "10.244.0.0/24" : "fd00:244::/64");
    if (pods.contains(to))
      return netlink::Route{.out_link = 3, .source = ip(v4 ? "10.244.0.1" : "fd00:244::1")};
    return netlink::Route{.out_link = 2,
                          .gateway = ip(v4 ? "10.200.0.1" : "fd00:200::1"),
                          .source = ip(v4 ? "10.200.0.2" : "fd00:200::2")};
  }

 private:
  static netlink::AddressRecord at(const char* address, std::uint8_t length, std::int32_t link) {
    return {.link_index = link, .address = ip(address), .prefix_length = length, .global = true};
  }
};

PacketWalk walk_dump(const std::string& dump, const Flow& flow) {
  test::DumpedTables tables(dump);
  ipset::NoSets no_sets;
  DumpHost host;
  NodeReading node;
  REQUIRE(read_other_nft_tables({tables, flow.destination.family(), no_sets}, node));
  node.links = *host.links();
  node.addresses = *host.addresses();
  node.listeners = *host.listeners();
  node.forwards_ipv4 = {"lo", "eth0", "cni0"};
  auto walk = walk_packet(flow, node, host);
  REQUIRE(walk);
  return *std::move(walk);
}

// "delivered", "10.244.0.13:8080 sees 10.200.0.2", or why not.
std::string fate_in(const std::string& dump, const char* source, const char* destination,
                    std::uint16_t port, Protocol protocol = Protocol::tcp) {
  const auto walk = walk_dump(
      dump,
      {.source = ip(source), .destination = ip(destination), .port = port, .protocol = protocol});
  const auto& arrival = walk.arrival;
  CHECK(is_certain(walk));
  if (!arrival.why.empty()) return std::string(to_string(arrival.fate)) + " at " + arrival.why;
  if (arrival.fate == Fate::delivered) return "delivered";
  const auto to = arrival.translated_to.empty() ? netlink::to_string(ip(destination), port)
                                                : arrival.translated_to;
  return to + " sees " + arrival.source.to_string();
}

constexpr const char* kClient = "203.0.113.7";
constexpr const char* kStranger = "198.51.100.9";
constexpr const char* kHostAddress = "10.200.0.2";
constexpr const char* kPod = "10.244.0.11";

TEST_CASE("explain: a host's firewall in nf_tables, with sets, maps and policies that drop") {
  const std::string all = "firewall";
  CHECK(fate_in(all, kClient, kHostAddress, 22) == "delivered");
  CHECK(fate_in(all, kStranger, kHostAddress, 22) ==
        "dropped at inet host input: ssh ip saddr 198.51.100.9 drop");
  CHECK(fate_in(all, kClient, kHostAddress, 81) ==
        "dropped at inet host input: in meta l4proto . th dport vmap @doors");
  CHECK(fate_in(all, "203.0.113.9", kHostAddress, 443) == "delivered");
  CHECK(fate_in(all, "203.0.113.10", kHostAddress, 443) ==
        "dropped at inet host input: in policy DROP");
  CHECK(fate_in(all, kStranger, kHostAddress, 80) == "delivered");
  CHECK(fate_in(all, kStranger, kHostAddress, 80, Protocol::udp) == "delivered");
  CHECK(fate_in(all, "2001:db8:7::7", "fd00:200::2", 443) == "delivered");
  CHECK(fate_in(all, "fd00:200::9", "fd00:200::2", 443) ==
        "refused at inet host input: in ip6 saddr fd00:200::/64 reject with icmpx "
        "admin-prohibited");
  CHECK(fate_in(all, kPod, "192.0.2.1", 443) == "192.0.2.1:443 sees 10.244.0.11");
  CHECK(fate_in(all, kPod, "192.0.2.1", 81) == "dropped at inet host forward: through policy DROP");
  CHECK(fate_in(all, kHostAddress, kHostAddress, 443) == "delivered");
}

TEST_CASE("explain: docker in nf_tables, of its own and by iptables-nft") {
  for (const std::string all : {"docker", "docker_iptables"}) {
    INFO(all);
    CHECK(fate_in(all, kClient, kHostAddress, 8443) == "10.244.0.13:8080 sees 203.0.113.7");
    CHECK(fate_in(all, kHostAddress, kHostAddress, 8443) == "10.244.0.13:8080 sees 10.200.0.2");
    CHECK(fate_in(all, kPod, "192.0.2.1", 443) == "192.0.2.1:443 sees 10.200.0.2");
    CHECK(fate_in(all, kClient, kHostAddress, 443) == "delivered");
  }
  CHECK(fate_in("docker", kClient, kPod, 81) ==
        "dropped at ip docker-bridges prerouting: raw ip daddr 10.244.0.11 iifname \"eth0\" tcp "
        "dport 81 drop");
  CHECK(fate_in("docker_iptables", kClient, kPod, 8080) ==
        "dropped at ip filter forward: FORWARD policy DROP");
  CHECK(fate_in("docker_iptables", kClient, kHostAddress, 81) ==
        "refused at ip filter input: INPUT tcp dport 81 -m conntrack --ctstate "
        "NEW -j REJECT --reject-with icmp-admin-prohibited");
  CHECK(fate_in("docker_iptables", kClient, kHostAddress, 81, Protocol::udp)
            .starts_with("dropped at ip filter input: INPUT "));
}

TEST_CASE("explain: host ports of portmap in nf_tables") {
  const std::string all = "portmap";
  CHECK(fate_in(all, kClient, kHostAddress, 8443) == "10.244.0.12:8080 sees 203.0.113.7");
  CHECK(fate_in(all, kClient, kHostAddress, 81, Protocol::udp) ==
        "10.244.0.11:8080 sees 203.0.113.7");
  CHECK(fate_in(all, kClient, kHostAddress, 81) == "delivered");
  CHECK(fate_in(all, "10.244.0.12", kHostAddress, 8443) == "10.244.0.12:8080 sees 10.244.0.1");
  CHECK(fate_in(all, "2001:db8:7::7", "fd00:200::2", 8443) ==
        "[fd00:244::12]:8080 sees 2001:db8:7::7");
}

TEST_CASE("explain: firewalld and Calico in nf_tables") {
  CHECK(fate_in("firewalld", kClient, kHostAddress, 22) == "delivered");
  CHECK(fate_in("firewalld", kClient, kHostAddress, 443) ==
        "refused at inet firewalld input: filter_INPUT reject with icmpx admin-prohibited");
  CHECK(fate_in("firewalld", kPod, kHostAddress, 443) == "delivered");
  CHECK(fate_in("firewalld", kClient, kHostAddress, 30001) ==
        "refused at inet firewalld input: public ct mark & 0x100 == 0x100 reject with icmpx "
        "host-unreachable");
  CHECK(fate_in("firewalld", kPod, "198.18.0.1", 80)
            .starts_with("refused at inet firewalld forward: filter_FORWARD ip daddr "));
  CHECK(fate_in("firewalld", "10.244.0.13", "192.0.2.1", 80) == "192.0.2.1:80 sees 10.200.0.2");
  CHECK(fate_in("calico", kClient, kHostAddress, 443) == "delivered");
  CHECK(fate_in("calico", "10.244.0.13", "192.0.2.1", 80) == "192.0.2.1:80 sees 10.200.0.2");
  CHECK(fate_in("calico", "10.244.0.13", "192.0.2.1", 81) ==
        "dropped at inet calico forward: cali-from-pods ip saddr 10.244.0.13 th dport 81 drop");
  CHECK(fate_in("calico", "10.244.0.12", "10.200.0.3", 443) == "10.200.0.3:443 sees 10.200.0.2");
  CHECK(fate_in("calico", kStranger, kHostAddress, 30004) ==
        "dropped at inet calico input: filter-INPUT iifname \"eth*\" ip saddr 198.51.100.9 th "
        "dport 30004 drop");
}

// --- lookups

netlink::NftSetSpec set_with(std::uint32_t flags, std::vector<std::uint32_t> fields = {}) {
  return {.name = "s", .flags = flags, .key_bytes = 4, .fields = std::move(fields)};
}

TEST_CASE("a key is looked up among intervals as the kernel does, with unknown bits as well") {
  const auto element = [](netlink::Bytes key, bool end) {
    return netlink::NftElement{.key = std::move(key), .interval_end = end};
  };
  ipset::FilterSet set{
      .spec = set_with(netlink::NftSetSpec::kInterval),
      .elements = {element({0}, true), element({10}, false), element({20}, true),
                   element({20}, false), element({30}, true), element({250}, false)}};
  const auto answer = [&](std::uint8_t value, std::uint8_t known = 0xff) {
    return ipset::find_in(set, {.bytes = {value}, .known = {known}}).answer;
  };
  CHECK(answer(9) == Answer::no);
  CHECK(answer(10) == Answer::yes);
  CHECK(answer(20) == Answer::yes);
  CHECK(answer(29) == Answer::yes);
  CHECK(answer(30) == Answer::no);
  CHECK(answer(255) == Answer::yes);
  CHECK(answer(12, 0xfe) == Answer::yes);     // 12 or 13
  CHECK(answer(8, 0xf8) == Answer::unknown);  // 8 to 15
  CHECK(answer(40, 0xf8) == Answer::no);
  set.elements.push_back({});  // "everything else"
  CHECK(answer(9) == Answer::yes);
}

TEST_CASE("each part of a concatenation has its interval") {
  ipset::FilterSet set{
      .spec =
          set_with(netlink::NftSetSpec::kInterval | netlink::NftSetSpec::kConcatenation, {1, 1}),
      .elements = {{.key = {10, 0, 0, 0, 5, 0, 0, 0}, .key_end = {20, 0, 0, 0, 7, 0, 0, 0}}}};
  const auto answer = [&](std::uint8_t first, std::uint8_t second) {
    return ipset::find_in(set, ipset::NftField::of(netlink::Bytes{first, 0, 0, 0, second, 0, 0, 0}))
        .answer;
  };
  CHECK(answer(15, 6) == Answer::yes);
  CHECK(answer(15, 8) == Answer::no);
  CHECK(answer(9, 6) == Answer::no);
  auto key = ipset::NftField::of(netlink::Bytes{15, 0, 0, 0, 0, 0, 0, 0});
  key.known[4] = 0;
  CHECK(ipset::find_in(set, key).answer == Answer::unknown);
}

// --- single rules

using TableSets = std::map<std::string, ipset::FilterSet>;

ipset::RuleOutcome outcome_of(const std::vector<netlink::NftExpression>& expressions,
                              const Packet& packet, const TableSets& sets = {}) {
  ipset::NoSets no_sets;
  const auto steps = ipset::steps_of(expressions, packet.family(), no_sets);
  const ipset::NftSets known{.table = "ip host", .find = [&](const std::string& name) {
                               const auto set = sets.find(name);
                               return set == sets.end() ? nullptr : &set->second;
                             }};
  const NodeReading node;
  const IsLocal is_local = [](const IpAddress&) { return false; };
  ipset::LookBudget budget;
  return judge_nft(steps, known, ReadFacts(node, is_local), packet, budget);
}

const Packet kPacket{
    .source = ip("203.0.113.7"), .destination = ip("10.200.0.2"), .destination_port = 80};

netlink::NftExpression verdict_of(netlink::NftVerdictCode code) {
  return netlink::NftImmediate{.data = netlink::NftVerdict{code, {}}};
}

TEST_CASE("what is not known of a packet leaves a rule open, or not") {
  using netlink::NftCompare;
  using netlink::NftPayload;
  const auto drop = verdict_of(netlink::NftVerdictCode::drop);
  const NftPayload ttl{.target = 1, .offset = 8, .size = 1};
  const NftPayload ttl_and_protocol{.target = 1, .offset = 8, .size = 2};
  const NftCompare is_64{.source = 1, .data = {64}};
  CHECK(outcome_of({ttl, is_64, drop}, kPacket).answer == Answer::unknown);
  CHECK(outcome_of({ttl_and_protocol, NftCompare{.source = 1, .data = {64, 17}}, drop}, kPacket)
            .answer == Answer::no);
  // It decides nothing.
  CHECK(outcome_of({ttl, is_64}, kPacket).answer == Answer::no);
  // A later part decides.
  const NftPayload port{
      .target = 1, .header = netlink::NftHeader::transport, .offset = 2, .size = 2};
  CHECK(outcome_of({ttl, is_64, port, NftCompare{.source = 1, .data = {0, 22}}, drop}, kPacket)
            .answer == Answer::no);
  const netlink::NftOtherExpression limit{.name = "limit", .data = {}};
  CHECK(outcome_of({limit, drop}, kPacket).answer == Answer::unknown);
  CHECK(
      outcome_of({limit, netlink::NftOtherExpression{.name = "log", .data = {}}}, kPacket).answer ==
      Answer::no);
  // The packet may end there.
  CHECK(outcome_of({netlink::NftOtherExpression{.name = "queue", .data = {}}}, kPacket).answer ==
        Answer::unknown);
  CHECK(outcome_of({netlink::NftOtherExpression{.name = "of tomorrow", .data = {1, 2, 3}}, drop},
                   kPacket)
            .answer == Answer::unknown);
}

TEST_CASE("an element with a limit or quota may not match, one with a counter does") {
  const netlink::NftPayload address{.target = 1, .offset = 12, .size = 4};
  const auto answer = [&](bool asks, bool inverted) {
    const TableSets sets{
        {"s", {.spec = set_with(0), .elements = {{.key = {203, 0, 113, 7}, .asks = asks}}}}};
    return outcome_of({address, netlink::NftLookup{.set = "s", .source = 1, .inverted = inverted},
                       verdict_of(netlink::NftVerdictCode::drop)},
                      kPacket, sets)
        .answer;
  };
  CHECK(answer(false, false) == Answer::yes);
  CHECK(answer(true, false) == Answer::unknown);
  CHECK(answer(true, true) == Answer::no);
}

std::string words_in(const std::vector<netlink::NftExpression>& expressions,
                     const std::map<std::string, ipset::FilterSet>& sets = {}) {
  ipset::NoSets no_sets;
  return ipset::words_of(ipset::steps_of(expressions, Family::ipv4, no_sets), Family::ipv4, sets);
}

TEST_CASE("an interval ends where an adjacent one begins") {
  using netlink::NftSetSpec;
  const auto port = [](std::uint8_t number, bool end) {
    return netlink::NftElement{.key = {0, number}, .interval_end = end};
  };
  const ipset::FilterSet set{
      .spec = {.name = "s",
               .flags = NftSetSpec::kAnonymous | NftSetSpec::kConstant | NftSetSpec::kInterval,
               .key_type = netlink::nft_type({netlink::NftType::inet_service}),
               .key_bytes = 2},
      .elements = {port(0, true), port(10, false), port(20, false), port(30, true),
                   port(40, false)}};
  const netlink::NftPayload field{
      .target = 1, .header = netlink::NftHeader::transport, .offset = 2, .size = 2};
  CHECK(words_in({field, netlink::NftLookup{.set = "s", .source = 1}}, {{"s", set}}) ==
        "th dport { 10 to before 20, 20 to before 30, 40 and above }");
  const auto answer = [&](std::uint8_t number) {
    return ipset::find_in(set, ipset::NftField::of(netlink::Bytes{0, number})).answer;
  };
  CHECK(answer(19) == Answer::yes);
  CHECK(answer(20) == Answer::yes);
  CHECK(answer(30) == Answer::no);
}

// As firewalld asks for the way back; which routes there are is not read.
TEST_CASE("a rule that asks for a route by a link is not judged, and told in words") {
  const std::vector<netlink::NftExpression> rule = {
      netlink::NftFib{
          .target = 1,
          .result = netlink::kNftFibLink,
          .flags = netlink::NftFib::kSource | netlink::kNftFibInLink | netlink::kNftFibPresent},
      netlink::NftCompare{.source = 1, .data = {0, 0, 0, 0}},
      verdict_of(netlink::NftVerdictCode::drop)};
  CHECK(outcome_of(rule, kPacket).answer == Answer::unknown);
  CHECK(words_in(rule) == "fib saddr . iif oif missing drop");
}

TEST_CASE("a protocol is not said only where the next field has it") {
  const netlink::NftMeta protocol{.key = netlink::NftMeta::kL4Protocol, .target = 1, .source = {}};
  const netlink::NftCompare is_tcp{.source = 1, .data = {6}};
  const netlink::NftPayload address{
      .target = 1, .header = netlink::NftHeader::network, .offset = 12, .size = 4};
  const netlink::NftCompare is_host{.source = 1, .data = {10, 0, 0, 1}};
  const netlink::NftPayload port{
      .target = 1, .header = netlink::NftHeader::transport, .offset = 2, .size = 2};
  const netlink::NftCompare is_80{.source = 1, .data = {0, 80}};
  CHECK(words_in({protocol, is_tcp, address, is_host}) == "meta l4proto tcp ip saddr 10.0.0.1");
  CHECK(words_in({protocol, is_tcp, port, is_80}) == "tcp dport 80");
}

TEST_CASE("a drop may have an error number") {
  const auto outcome =
      outcome_of({verdict_of(static_cast<netlink::NftVerdictCode>(1 << 16))}, kPacket);
  CHECK(outcome.answer == Answer::yes);
  CHECK(outcome.leads == std::vector<ipset::Action>{ipset::Verdict::drop});
}

TEST_CASE("a rule adds to a flowtable only what connection tracking has in its table") {
  const auto table_of = [](const Packet& packet) {
    const netlink::NftOtherExpression offload{.name = "flow_offload",
                                              .data = {6, 0, 1, 0, 'f', 0, 0, 0}};
    const auto outcome = outcome_of({offload}, packet);
    CHECK((outcome.answer == Answer::no) == outcome.flowtable.empty());
    return outcome.flowtable;
  };
  CHECK(table_of(kPacket).empty());
  auto later = kPacket;
  later.established = later.confirmed = true;
  CHECK(table_of(later) == "f");
  later.protocol = Protocol::sctp;
  CHECK(table_of(later).empty());
  later.protocol = Protocol::udp;
  later.tracking = Tracking::never;
  CHECK(table_of(later).empty());
}

TEST_CASE("what a rule does is told in order, marks first") {
  using netlink::NftImmediate;
  const NftImmediate seven{.target = 1, .data = netlink::Bytes{7, 0, 0, 0}};
  const netlink::NftMeta set_mark{.key = netlink::NftMeta::kMark, .target = {}, .source = 1};
  const netlink::NftMeta get_mark{.key = netlink::NftMeta::kMark, .target = 1, .source = {}};
  const netlink::NftCompare is_seven{.source = 1, .data = {7, 0, 0, 0}};
  const auto outcome = outcome_of(
      {seven, set_mark, get_mark, is_seven, verdict_of(netlink::NftVerdictCode::accept)}, kPacket);
  CHECK(outcome.answer == Answer::yes);
  CHECK(outcome.effects ==
        std::vector<ipset::Action>{ipset::MarkTarget{.value = 7, .mask = 0xffffffff}});
  CHECK(outcome.leads == std::vector<ipset::Action>{ipset::Verdict::accept});
  // A connection that is not tracked has no mark.
  auto untracked = kPacket;
  untracked.tracking = Tracking::never;
  const netlink::NftCt ct_mark{.key = 3, .target = 1, .direction = {}};
  CHECK(outcome_of({ct_mark, is_seven, verdict_of(netlink::NftVerdictCode::drop)}, untracked)
            .answer == Answer::no);
}

}  // namespace
}  // namespace ipvsproxier::ctl

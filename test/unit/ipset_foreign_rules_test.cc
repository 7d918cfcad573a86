// Rules of others, from the bytes that their iptables puts into the kernel.

#include "ipset/rules/foreign_rules.h"

#include <netinet/in.h>

// After <netinet/in.h>, which they would redefine.
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/xt_CT.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_ipvs.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_set.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <cstring>
#include <random>

#include <catch2/catch.hpp>

#include "test/rule_bytes.h"
#include "test/support/ip.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using netlink::IpPrefix;
using test::CatalogSets;
using test::ip;

template <typename Info>
Extension extension(std::string name, std::uint8_t revision, const Info& info) {
  Bytes data(padded_size(sizeof info));
  std::memcpy(data.data(), &info, sizeof info);
  return {.name = std::move(name), .revision = revision, .data = std::move(data)};
}

EntryParts parts_of(const ipt_entry& entry, std::vector<Extension> matches, Extension target) {
  EntryParts parts{.matches = std::move(matches), .target = std::move(target)};
  parts.header.resize(sizeof entry);
  std::memcpy(parts.header.data(), &entry, sizeof entry);
  return parts;
}

// A verdict or a chain, as the kernel gives it back.
Extension standard() {
  return {.data = Bytes(padded_size(sizeof(int)))};
}

Rule decoded(const EntryParts& parts, std::string_view label) {
  CatalogSets sets;
  return decode_rule(Family::ipv4, join_entry(Family::ipv4, parts), label, sets);
}

ForeignTarget foreign(const EntryParts& parts, std::string_view label) {
  return std::get<ForeignTarget>(decoded(parts, label).target);
}

xt_conntrack_mtinfo3 states(unsigned mask, bool negated) {
  xt_conntrack_mtinfo3 info{};
  info.match_flags = XT_CONNTRACK_STATE;
  info.invert_flags = negated ? XT_CONNTRACK_STATE : 0;
  info.state_mask = static_cast<std::uint16_t>(mask);
  return info;
}

TEST_CASE("foreign rules: kubelet's own") {
  ipt_entry entry{};
  entry.ip.src.s_addr = entry.ip.dst.s_addr = htonl(0x7f000000);
  entry.ip.smsk.s_addr = entry.ip.dmsk.s_addr = htonl(0xff000000);
  entry.ip.invflags = IPT_INV_SRCIP;
  constexpr unsigned kStates = XT_CONNTRACK_STATE_BIT(IP_CT_RELATED) |
                               XT_CONNTRACK_STATE_BIT(IP_CT_ESTABLISHED) | XT_CONNTRACK_STATE_DNAT;
  auto comment = *encode_rule({.comment = "block incoming localnet connections"}, Family::ipv4,
                              *std::make_unique<CatalogSets>());
  const auto words = split_entry(Family::ipv4, comment)->matches.at(0);
  const auto rule = decoded(
      parts_of(entry, {words, extension("conntrack", 3, states(kStates, true))}, standard()),
      "DROP");
  CHECK(to_string(rule, Family::ipv4) ==
        "-m comment --comment \"block incoming localnet connections\" ! -s 127.0.0.0/8 "
        "-d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP");
  const auto loopback = *IpPrefix::parse("127.0.0.0/8");
  CHECK(std::get<ForeignTarget>(rule.target).conditions ==
        std::vector<Condition>{
            AddressCondition{.direction = Direction::src, .prefix = loopback, .negated = true},
            AddressCondition{.direction = Direction::dst, .prefix = loopback},
            StateCondition{.states = kStates, .negated = true}});
  CHECK(std::get<ForeignTarget>(rule.target).action == Action(Verdict::drop));
}

TEST_CASE("foreign rules: interfaces, protocols, fragments, chains from which nothing comes back") {
  ipt_entry entry{};
  std::strcpy(entry.ip.iniface, "cali+");
  std::memset(entry.ip.iniface_mask, 0xff, 4);
  std::strcpy(entry.ip.outiface, "docker0");
  std::memset(entry.ip.outiface_mask, 0xff, 8);
  entry.ip.proto = 4;
  entry.ip.invflags = IPT_INV_VIA_OUT | IPT_INV_PROTO | IPT_INV_FRAG;
  entry.ip.flags = IPT_F_GOTO | IPT_F_FRAG;
  const auto read = foreign(parts_of(entry, {}, standard()), "cali-wl-to-host");
  CHECK(read.description == "-i cali+ ! -o docker0 ! -p 4 ! -f -g cali-wl-to-host");
  CHECK(read.conditions ==
        std::vector<Condition>{
            LinkCondition{.direction = Direction::src, .name = "cali", .is_prefix = true},
            LinkCondition{.direction = Direction::dst, .name = "docker0", .negated = true},
            ProtocolCondition{.number = 4, .negated = true}, FixedCondition{.holds = true}});
  CHECK(read.action == Action(GotoAction{"cali-wl-to-host"}));
  // A mask with a hole, and a flag that nobody knows.
  entry.ip.outiface_mask[2] = 0;
  entry.ip.flags |= 0x80;
  const auto odd = foreign(parts_of(entry, {}, standard()), "X");
  CHECK(std::ranges::count(odd.conditions, Condition(UnknownCondition{})) == 2);
}

TEST_CASE("foreign rules: ports and flags of TCP") {
  ipt_entry entry{};
  entry.ip.proto = IPPROTO_TCP;
  xt_tcp syn{.spts = {0, 65535}, .dpts = {80, 80}, .flg_mask = 0x17, .flg_cmp = 0x02};
  auto read = foreign(parts_of(entry, {extension("tcp", 0, syn)}, standard()), "ACCEPT");
  CHECK(read.description == "-p tcp -m tcp --dport 80 --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT");
  CHECK(read.conditions.at(1) ==
        Condition(PortCondition{.directions = {Direction::dst}, .ranges = {{80, 80}}}));
  CHECK(read.conditions.at(2) == Condition(FixedCondition{.holds = true, .of_first = true}));
  syn.invflags = XT_TCP_INV_FLAGS;
  read = foreign(parts_of(entry, {extension("tcp", 0, syn)}, standard()), "ACCEPT");
  CHECK(read.conditions.at(2) == Condition(FixedCondition{.holds = false, .of_first = true}));
  syn.option = 5;
  read = foreign(parts_of(entry, {extension("tcp", 0, syn)}, standard()), "ACCEPT");
  CHECK(read.conditions.at(1) == Condition(UnknownCondition{}));

  xt_multiport_v1 many{.flags = XT_MULTIPORT_DESTINATION,
                       .count = 3,
                       .ports = {22, 30000, 32767},
                       .pflags = {0, 1, 0}};
  read = foreign(parts_of(entry, {extension("multiport", 1, many)}, standard()), "RETURN");
  CHECK(read.description == "-p tcp -m multiport --dports 22,30000:32767 -j RETURN");
  // A range that never ends.
  many.count = 2;
  read = foreign(parts_of(entry, {extension("multiport", 1, many)}, standard()), "RETURN");
  CHECK(read.conditions.at(1) == Condition(UnknownCondition{}));
  many.count = 200;
  read = foreign(parts_of(entry, {extension("multiport", 1, many)}, standard()), "RETURN");
  CHECK(read.conditions.at(1) == Condition(UnknownCondition{}));
}

TEST_CASE("foreign rules: what IPVS has handled") {
  xt_ipvs_mtinfo info{};
  info.bitmask = info.invert = XT_IPVS_IPVS_PROPERTY;
  const auto read = foreign(parts_of({}, {extension("ipvs", 0, info)}, standard()), "DROP");
  CHECK(read.description == "-m ipvs ! --ipvs -j DROP");
  CHECK(read.conditions == std::vector<Condition>{IpvsCondition{.negated = true}});
}

TEST_CASE("foreign rules: types of addresses; sets that do not have it are of our vocabulary") {
  const xt_addrtype_info_v1 type{.source = XT_ADDRTYPE_LOCAL,
                                 .dest = XT_ADDRTYPE_MULTICAST | XT_ADDRTYPE_BROADCAST,
                                 .flags = XT_ADDRTYPE_INVERT_SOURCE | XT_ADDRTYPE_LIMIT_IFACE_OUT};
  auto read = foreign(parts_of({}, {extension("addrtype", 1, type)}, standard()), "DROP");
  CHECK(read.description ==
        "-m addrtype ! --src-type LOCAL --dst-type BROADCAST,MULTICAST --limit-iface-out -j DROP");
  CHECK(read.conditions.size() == 2);

  xt_set_info_match_v4 set{};
  set.match_set.dim = 1;
  set.match_set.flags = IPSET_INV_MATCH;
  const auto ours = decoded(parts_of({}, {extension("set", 4, set)}, standard()), "DROP");
  CHECK(to_string(ours, Family::ipv4) == "-m set ! --match-set KUBE-LOOP-BACK dst -j DROP");
  CHECK(ours.matches == std::vector<Match>{SetMatch{"KUBE-LOOP-BACK", {Direction::dst}, true}});
  set.packets.op = 1;  // counters are compared, too
  read = foreign(parts_of({}, {extension("set", 4, set)}, standard()), "DROP");
  CHECK(read.conditions == std::vector<Condition>{UnknownCondition{}});
}

TEST_CASE("foreign rules: translations") {
  nf_nat_range2 range{};
  // Without the last one it is a target of ours.
  range.flags = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED | NF_NAT_RANGE_PERSISTENT;
  range.min_addr.ip = range.max_addr.ip = htonl(0x0af40105);
  range.min_proto.all = range.max_proto.all = htons(80);
  auto read = foreign(parts_of({}, {}, extension("DNAT", 2, range)), "DNAT");
  CHECK(read.description == "-j DNAT --to-destination 10.244.1.5:80 --persistent");
  CHECK(read.action == Action(TranslateAction{.address = ip("10.244.1.5"), .port = 80}));
  range.max_addr.ip = htonl(0x0af40106);
  read = foreign(parts_of({}, {}, extension("DNAT", 2, range)), "DNAT");
  CHECK(read.description == "-j DNAT --to-destination 10.244.1.5-10.244.1.6:80 --persistent");
  CHECK(read.action == Action(UnknownAction{}));

  nf_nat_ipv4_multi_range_compat old{};
  old.rangesize = 1;
  old.range[0].flags = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_RANDOM_FULLY;
  old.range[0].min_ip = old.range[0].max_ip = htonl(0x0ac80002);
  read = foreign(parts_of({}, {}, extension("SNAT", 0, old)), "SNAT");
  CHECK(read.description == "-j SNAT --to-source 10.200.0.2 --random-fully");
  CHECK(read.action ==
        Action(TranslateAction{.direction = Direction::src, .address = ip("10.200.0.2")}));
  old.range[0].flags = NF_NAT_RANGE_PROTO_SPECIFIED;
  old.range[0].min.all = old.range[0].max.all = htons(8080);
  read = foreign(parts_of({}, {}, extension("REDIRECT", 0, old)), "REDIRECT");
  CHECK(read.description == "-j REDIRECT --to-ports 8080");
  CHECK(read.action == Action(TranslateAction{.port = 8080, .to_here = true}));
}

TEST_CASE("foreign rules: other targets") {
  const auto read = [](const Extension& target) {
    return foreign(parts_of({}, {}, target), target.name);
  };
  const xt_ct_target_info_v1 notrack{.flags = XT_CT_NOTRACK};
  CHECK(read(extension("CT", 2, notrack)).action == Action(NoTrackAction{}));
  CHECK(read(extension("REJECT", 0, 7U)).description == "-j REJECT --reject-with tcp-reset");
  CHECK(read(extension("REJECT", 0, 7U)).action == Action(RejectAction{RejectAction::Way::reset}));
  CHECK(read(extension("REJECT", 0, 77U)).action == Action(UnknownAction{}));
  CHECK(read(extension("LOG", 0, 7U)).action == Action(NoAction{}));
  CHECK(read(extension("LOG", 0, 7U)).description == "-j LOG [...]");
  CHECK(read(extension("TPROXY", 1, 7U)).action == Action(UnknownAction{}));
  // A rule that asks for what is not known still says what it does.
  const auto limited =
      foreign(parts_of({}, {extension("limit", 0, std::uint64_t{0})}, standard()), "ACCEPT");
  CHECK(limited.description == "-m limit [...] -j ACCEPT");
  CHECK(limited.conditions == std::vector<Condition>{UnknownCondition{}});
  CHECK(limited.action == Action(Verdict::accept));
}

// No size, no flag and no content of an extension is more than the reader can take.
TEST_CASE("foreign rules: any bytes are read") {
  std::mt19937 random(Catch::rngSeed());
  CatalogSets sets;
  const auto any = [&](std::size_t size) {
    Bytes bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % 4 == 0 ? random() : 0);
    return bytes;
  };
  constexpr std::size_t kSizes[] = {0, 8, 16, 24, 40, 48, 72, 80, 160, 320};
  for (const auto family : netlink::kFamilies)
    for (const char* name :
         {"tcp", "udp", "sctp", "multiport", "conntrack", "connmark", "addrtype", "set", "comment",
          "SNAT", "DNAT", "REDIRECT", "MASQUERADE", "CONNMARK", "CT", "REJECT", "icmp", ""})
      for (int i = 0; i < 300; ++i) {
        const auto size = kSizes[random() % std::size(kSizes)];
        const Extension one{
            .name = name, .revision = static_cast<std::uint8_t>(random() % 5), .data = any(size)};
        const EntryParts parts{
            .header = any(entry_header_size(family)), .matches = {one}, .target = one};
        const auto rule = read_foreign(family, parts, "X", sets);
        REQUIRE(std::holds_alternative<ForeignTarget>(rule.target));
        REQUIRE_FALSE(encode_rule(rule, family, sets));
      }
}

}  // namespace
}  // namespace ipvsproxier::ipset

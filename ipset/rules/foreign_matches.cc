#include <netinet/in.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_connmark.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_ipvs.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_set.h>
#include <linux/netfilter/xt_tcpudp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ipset/rules/foreign_extension_data.h"
#include "ipset/rules/foreign_rules.h"
#include "ipset/rules/rule_extensions.h"

namespace ipvsproxier::ipset {

namespace {

ReadCondition not_known(const Extension& extension) {
  return {.text = fmt::format("-m {} [...]", extension.name), .conditions = {UnknownCondition{}}};
}

std::string option(bool negated, std::string_view words) {
  return fmt::format("{}{}", negated ? " ! " : " ", words);
}

// --- ports

std::string range_text(const PortRange& range) {
  return range.first == range.last ? std::to_string(range.first)
                                   : fmt::format("{}:{}", range.first, range.last);
}

void add_ports(ReadCondition& read, Direction direction, const std::uint16_t (&ports)[2],
               bool negated) {
  const PortRange range{.first = ports[0], .last = ports[1]};
  if (range == PortRange{} && !negated) return;
  const auto* const name = direction == Direction::src ? "--sport " : "--dport ";
  read.text += option(negated, name + range_text(range));
  read.conditions.emplace_back(
      PortCondition{.directions = {direction}, .ranges = {range}, .negated = negated});
}

constexpr std::array<BitName, 6> kFlagNames = {
    {{0x01, "FIN"}, {0x02, "SYN"}, {0x04, "RST"}, {0x08, "PSH"}, {0x10, "ACK"}, {0x20, "URG"}}};
constexpr unsigned kSyn = 0x02;

// The first packet of a connection has SYN set; the ECN flags may be set, the other flags are
// clear.
void add_flags(ReadCondition& read, const xt_tcp& tcp) {
  const bool negated = (tcp.invflags & XT_TCP_INV_FLAGS) != 0;
  if (tcp.flg_mask == 0 && tcp.flg_cmp == 0 && !negated) return;
  read.text +=
      option(negated, fmt::format("--tcp-flags {} {}", names_of(tcp.flg_mask, kFlagNames),
                                  tcp.flg_cmp == 0 ? "NONE" : names_of(tcp.flg_cmp, kFlagNames)));
  if ((tcp.flg_mask & ~all_of(kFlagNames)) != 0)
    read.conditions.emplace_back(UnknownCondition{});
  else
    read.conditions.emplace_back(FixedCondition{
        .holds = ((kSyn & tcp.flg_mask) == tcp.flg_cmp) != negated, .of_first = true});
}

std::optional<ReadCondition> read_tcp(const Extension& given) {
  const auto info = data_of<xt_tcp>(given);
  if (!info || (info->invflags & ~XT_TCP_INV_MASK) != 0 || info->option != 0 ||
      (info->invflags & XT_TCP_INV_OPTION) != 0)
    return std::nullopt;
  ReadCondition read{.text = "-m tcp"};
  add_ports(read, Direction::src, info->spts, (info->invflags & XT_TCP_INV_SRCPT) != 0);
  add_ports(read, Direction::dst, info->dpts, (info->invflags & XT_TCP_INV_DSTPT) != 0);
  add_flags(read, *info);
  return read;
}

std::optional<ReadCondition> read_udp(const Extension& given) {
  const auto info = data_of<xt_udp>(given);
  if (!info || (info->invflags & ~XT_UDP_INV_MASK) != 0) return std::nullopt;
  ReadCondition read{.text = "-m udp"};
  add_ports(read, Direction::src, info->spts, (info->invflags & XT_UDP_INV_SRCPT) != 0);
  add_ports(read, Direction::dst, info->dpts, (info->invflags & XT_UDP_INV_DSTPT) != 0);
  return read;
}

std::optional<ReadCondition> read_sctp(const Extension& given) {
  const auto info = data_of<SctpInfo>(given);
  if (!info || (info->flags & ~(SctpInfo::kSource | SctpInfo::kDestination)) != 0 ||
      (info->invflags & ~info->flags) != 0)
    return std::nullopt;
  ReadCondition read{.text = "-m sctp"};
  if ((info->flags & SctpInfo::kSource) != 0)
    add_ports(read, Direction::src, info->spts, (info->invflags & SctpInfo::kSource) != 0);
  if ((info->flags & SctpInfo::kDestination) != 0)
    add_ports(read, Direction::dst, info->dpts, (info->invflags & SctpInfo::kDestination) != 0);
  return read;
}

std::optional<ReadCondition> read_multiport(const Extension& given) {
  const auto info = data_of<xt_multiport_v1>(given);
  if (!info || info->count > XT_MULTI_PORTS || info->flags > XT_MULTIPORT_EITHER)
    return std::nullopt;
  PortCondition condition{.negated = info->invert != 0};
  if (info->flags != XT_MULTIPORT_DESTINATION) condition.directions.push_back(Direction::src);
  if (info->flags != XT_MULTIPORT_SOURCE) condition.directions.push_back(Direction::dst);
  // A port with a flag is the first of a range, and the next port the last.
  for (unsigned i = 0; i < info->count; ++i) {
    PortRange range{.first = info->ports[i], .last = info->ports[i]};
    if (info->pflags[i] != 0) {
      if (++i == info->count) return std::nullopt;
      range.last = info->ports[i];
    }
    condition.ranges.push_back(range);
  }
  std::vector<std::string> texts;
  for (const auto& range : condition.ranges) texts.push_back(range_text(range));
  constexpr std::array kNames = {"--sports", "--dports", "--ports"};
  return ReadCondition{.text = "-m multiport" + option(condition.negated,
                                                       fmt::format("{} {}", kNames.at(info->flags),
                                                                   fmt::join(texts, ","))),
                       .conditions = {std::move(condition)}};
}

// --- conntrack

constexpr std::array<BitName, 7> kStateNames = {
    {{XT_CONNTRACK_STATE_INVALID, "INVALID"},
     {XT_CONNTRACK_STATE_BIT(IP_CT_NEW), "NEW"},
     {XT_CONNTRACK_STATE_BIT(IP_CT_RELATED), "RELATED"},
     {XT_CONNTRACK_STATE_BIT(IP_CT_ESTABLISHED), "ESTABLISHED"},
     {XT_CONNTRACK_STATE_UNTRACKED, "UNTRACKED"},
     {XT_CONNTRACK_STATE_SNAT, "SNAT"},
     {XT_CONNTRACK_STATE_DNAT, "DNAT"}}};

static_assert(StateCondition::kInvalid == XT_CONNTRACK_STATE_INVALID);
static_assert(StateCondition::kNew == XT_CONNTRACK_STATE_BIT(IP_CT_NEW));
static_assert(StateCondition::kSourceTranslated == XT_CONNTRACK_STATE_SNAT);
static_assert(StateCondition::kDestinationTranslated == XT_CONNTRACK_STATE_DNAT);
static_assert(StateCondition::kUntracked == XT_CONNTRACK_STATE_UNTRACKED);

std::optional<ReadCondition> read_state(const Extension& given) {
  const auto info = data_of<xt_conntrack_mtinfo3>(given);
  constexpr unsigned kKnown = XT_CONNTRACK_STATE | XT_CONNTRACK_STATE_ALIAS;
  if (!info || (info->match_flags & XT_CONNTRACK_STATE) == 0 ||
      (info->match_flags & ~kKnown) != 0 || (info->state_mask & ~all_of(kStateNames)) != 0)
    return std::nullopt;
  const bool negated = (info->invert_flags & XT_CONNTRACK_STATE) != 0;
  const bool alias = (info->match_flags & XT_CONNTRACK_STATE_ALIAS) != 0;
  const auto states = names_of(info->state_mask, kStateNames);
  return ReadCondition{
      .text = alias ? "-m state" + option(negated, "--state " + states)
                    : "-m conntrack" + option(negated, "--ctstate " + states),
      .conditions = {StateCondition{.states = info->state_mask, .negated = negated}}};
}

std::optional<ReadCondition> read_connmark(const Extension& given) {
  const auto info = data_of<xt_connmark_mtinfo1>(given);
  if (!info) return std::nullopt;
  const bool negated = info->invert != 0;
  return ReadCondition{.text = "-m connmark" + option(negated, fmt::format("--mark {:#x}/{:#x}",
                                                                           info->mark, info->mask)),
                       .conditions = {ConnectionMarkCondition{
                           {.value = info->mark, .mask = info->mask, .negated = negated}}}};
}

// Of the options only --ipvs: whether IPVS has handled the packet.
std::optional<ReadCondition> read_ipvs(const Extension& given) {
  const auto info = data_of<xt_ipvs_mtinfo>(given);
  if (!info || info->bitmask != XT_IPVS_IPVS_PROPERTY) return std::nullopt;
  const bool negated = (info->invert & XT_IPVS_IPVS_PROPERTY) != 0;
  return ReadCondition{.text = "-m ipvs" + option(negated, "--ipvs"),
                       .conditions = {IpvsCondition{.negated = negated}}};
}

// --- addresses

constexpr std::array<BitName, 12> kTypeNames = {{{XT_ADDRTYPE_UNSPEC, "UNSPEC"},
                                                 {XT_ADDRTYPE_UNICAST, "UNICAST"},
                                                 {XT_ADDRTYPE_LOCAL, "LOCAL"},
                                                 {XT_ADDRTYPE_BROADCAST, "BROADCAST"},
                                                 {XT_ADDRTYPE_ANYCAST, "ANYCAST"},
                                                 {XT_ADDRTYPE_MULTICAST, "MULTICAST"},
                                                 {XT_ADDRTYPE_BLACKHOLE, "BLACKHOLE"},
                                                 {XT_ADDRTYPE_UNREACHABLE, "UNREACHABLE"},
                                                 {XT_ADDRTYPE_PROHIBIT, "PROHIBIT"},
                                                 {XT_ADDRTYPE_THROW, "THROW"},
                                                 {XT_ADDRTYPE_NAT, "NAT"},
                                                 {XT_ADDRTYPE_XRESOLVE, "XRESOLVE"}}};

static_assert(AddressTypeCondition::kUnicast == unsigned{XT_ADDRTYPE_UNICAST});
static_assert(AddressTypeCondition::kLocal == unsigned{XT_ADDRTYPE_LOCAL});
static_assert(AddressTypeCondition::kBroadcast == unsigned{XT_ADDRTYPE_BROADCAST});
static_assert(AddressTypeCondition::kMulticast == unsigned{XT_ADDRTYPE_MULTICAST});

std::optional<ReadCondition> read_addrtype(const Extension& given) {
  const auto info = data_of<xt_addrtype_info_v1>(given);
  constexpr unsigned kLimits = XT_ADDRTYPE_LIMIT_IFACE_IN | XT_ADDRTYPE_LIMIT_IFACE_OUT;
  constexpr unsigned kKnown = XT_ADDRTYPE_INVERT_SOURCE | XT_ADDRTYPE_INVERT_DEST | kLimits;
  if (!info || (info->flags & ~kKnown) != 0 || (info->flags & kLimits) == kLimits)
    return std::nullopt;
  using Limit = AddressTypeCondition::Limit;
  const auto limit = (info->flags & XT_ADDRTYPE_LIMIT_IFACE_IN) != 0    ? Limit::in_link
                     : (info->flags & XT_ADDRTYPE_LIMIT_IFACE_OUT) != 0 ? Limit::out_link
                                                                        : Limit::none;
  ReadCondition read{.text = "-m addrtype"};
  const auto add = [&](Direction direction, std::uint16_t types, unsigned inverse) {
    const bool negated = (info->flags & inverse) != 0;
    if (types == 0) return;
    read.text +=
        option(negated, fmt::format("--{}-type {}", direction == Direction::src ? "src" : "dst",
                                    names_of(types, kTypeNames)));
    read.conditions.emplace_back(AddressTypeCondition{
        .direction = direction, .types = types, .negated = negated, .limit = limit});
  };
  add(Direction::src, info->source, XT_ADDRTYPE_INVERT_SOURCE);
  add(Direction::dst, info->dest, XT_ADDRTYPE_INVERT_DEST);
  if (limit != Limit::none)
    read.text += limit == Limit::in_link ? " --limit-iface-in" : " --limit-iface-out";
  return read;
}

}  // namespace

ReadCondition read_match(const Extension& extension) {
  const auto is = [&](std::string_view name, unsigned revision) {
    return extension.name == name && extension.revision == revision;
  };
  std::optional<ReadCondition> read;
  if (is("tcp", 0)) read = read_tcp(extension);
  if (is("udp", 0)) read = read_udp(extension);
  if (is("sctp", 0)) read = read_sctp(extension);
  if (is("multiport", 1)) read = read_multiport(extension);
  if (is("conntrack", 3)) read = read_state(extension);
  if (is("connmark", 1)) read = read_connmark(extension);
  if (is("ipvs", 0)) read = read_ipvs(extension);
  if (is("addrtype", 1)) read = read_addrtype(extension);
  // Services have no ICMP: no packet that is judged here matches.
  if (is("icmp", 0) || is("icmp6", 0))
    read = {.text = fmt::format("-m {} [...]", extension.name), .conditions = {FixedCondition{}}};
  return read ? std::move(*read) : not_known(extension);
}

}  // namespace ipvsproxier::ipset

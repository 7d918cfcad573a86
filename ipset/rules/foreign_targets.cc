#include <netinet/in.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/xt_CT.h>
#include <linux/netfilter/xt_connmark.h>
#include <linux/netfilter_ipv4/ipt_REJECT.h>
#include <linux/netfilter_ipv6/ip6t_REJECT.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/foreign_extension_data.h"
#include "ipset/rules/foreign_rules.h"
#include "ipset/rules/rule_extensions.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpAddress;

using Way = RejectAction::Way;
struct Rejection {
  std::string_view name;
  Way way;
};
constexpr std::array<Rejection, 9> kRejectionsV4 = {{{"icmp-net-unreachable", Way::unreachable},
                                                     {"icmp-host-unreachable", Way::unreachable},
                                                     {"icmp-proto-unreachable", Way::prohibited},
                                                     {"icmp-port-unreachable", Way::unreachable},
                                                     {"", Way::prohibited},
                                                     {"icmp-net-prohibited", Way::prohibited},
                                                     {"icmp-host-prohibited", Way::prohibited},
                                                     {"tcp-reset", Way::reset},
                                                     {"icmp-admin-prohibited", Way::prohibited}}};
constexpr std::array<Rejection, 9> kRejectionsV6 = {{{"icmp6-no-route", Way::unreachable},
                                                     {"icmp6-adm-prohibited", Way::prohibited},
                                                     {"", Way::prohibited},
                                                     {"icmp6-addr-unreachable", Way::unreachable},
                                                     {"icmp6-port-unreachable", Way::unreachable},
                                                     {"", Way::prohibited},
                                                     {"tcp-reset", Way::reset},
                                                     {"icmp6-policy-fail", Way::prohibited},
                                                     {"icmp6-reject-route", Way::prohibited}}};

std::optional<ReadAction> read_reject(const Extension& given, Family family) {
  // Read as a number, not as the enumeration: the bytes may hold any value.
  static_assert(sizeof(ipt_reject_info) == sizeof(std::uint32_t) &&
                sizeof(ip6t_reject_info) == sizeof(std::uint32_t));
  const auto with_number = data_of<std::uint32_t>(given);
  const auto& known = family == Family::ipv4 ? kRejectionsV4 : kRejectionsV6;
  const std::size_t with = with_number.value_or(known.size());
  if (with >= known.size() || known.at(with).name.empty()) return std::nullopt;
  return ReadAction{.text = fmt::format("-j REJECT --reject-with {}", known.at(with).name),
                    .action = RejectAction{known.at(with).way}};
}

struct NatRange {
  unsigned flags = 0;
  IpAddress first;
  IpAddress last;
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
};

template <typename Field>
IpAddress nat_address(Family family, const Field& field) {
  Bytes bytes(netlink::address_bits(family) / 8U);
  std::memcpy(bytes.data(), &field, bytes.size());
  return *IpAddress::from_bytes(family, bytes);
}

template <typename Range>
NatRange nat_range(Family family, const Range& range) {
  return {.flags = range.flags,
          .first = nat_address(family, range.min_addr),
          .last = nat_address(family, range.max_addr),
          .first_port = ntohs(range.min_proto.all),
          .last_port = ntohs(range.max_proto.all)};
}

// SNAT and DNAT have one structure for IPv4 and another for IPv6; a newer DNAT has one for both.
std::optional<NatRange> read_range(const Extension& given, Family family) {
  if (given.revision == 2) {
    const auto info = data_of<nf_nat_range2>(given);
    if (info) return nat_range(family, *info);
    return std::nullopt;
  }
  if (family == Family::ipv6) {
    const auto info = data_of<nf_nat_range>(given);
    if (info) return nat_range(family, *info);
    return std::nullopt;
  }
  const auto info = data_of<nf_nat_ipv4_multi_range_compat>(given);
  if (!info || info->rangesize != 1) return std::nullopt;
  const auto& range = info->range[0];
  return NatRange{.flags = range.flags,
                  .first = nat_address(family, range.min_ip),
                  .last = nat_address(family, range.max_ip),
                  .first_port = ntohs(range.min.all),
                  .last_port = ntohs(range.max.all)};
}

constexpr std::array<BitName, 3> kNatOptions = {
    {{NF_NAT_RANGE_PROTO_RANDOM, "--random"},
     {NF_NAT_RANGE_PERSISTENT, "--persistent"},
     {NF_NAT_RANGE_PROTO_RANDOM_FULLY, "--random-fully"}}};

std::string nat_options(const NatRange& range) {
  std::string text;
  for (const auto& one : kNatOptions)
    if ((range.flags & one.bit) != 0) text += fmt::format(" {}", one.name);
  return text;
}

std::string ports_text(const NatRange& range) {
  return range.first_port == range.last_port
             ? std::to_string(range.first_port)
             : fmt::format("{}-{}", range.first_port, range.last_port);
}

std::string nat_end(const NatRange& range) {
  const bool has_address = (range.flags & NF_NAT_RANGE_MAP_IPS) != 0;
  const bool has_port = (range.flags & NF_NAT_RANGE_PROTO_SPECIFIED) != 0;
  auto text = has_address ? range.first.to_string() : std::string();
  if (has_address && range.first != range.last) text += "-" + range.last.to_string();
  if (has_port && has_address && range.first.family() == Family::ipv6) text = "[" + text + "]";
  return has_port ? text + ":" + ports_text(range) : text;
}

// A range of source ports is accepted: the source port does not change where a packet goes.
std::optional<ReadAction> read_nat(const Extension& given, Family family) {
  const auto range = read_range(given, family);
  if (!range) return std::nullopt;
  const bool has_address = (range->flags & NF_NAT_RANGE_MAP_IPS) != 0;
  const bool has_port = (range->flags & NF_NAT_RANGE_PROTO_SPECIFIED) != 0;
  const bool one_port = has_port && range->first_port == range->last_port;
  ReadAction read;
  const auto options = nat_options(*range);
  if (given.name == "MASQUERADE") {
    read.text = "-j MASQUERADE" + (has_port ? " --to-ports " + ports_text(*range) : "") + options;
    read.action = MasqueradeTarget{};
    return read;
  }
  const bool source = given.name == "SNAT";
  const bool here = given.name == "REDIRECT";
  read.text = here ? "-j REDIRECT" + (has_port ? " --to-ports " + ports_text(*range) : "")
                   : fmt::format("-j {} --to-{} {}", given.name, source ? "source" : "destination",
                                 nat_end(*range));
  read.text += options;
  const unsigned known = all_of(kNatOptions) | NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED;
  const bool many = (has_address && range->first != range->last) || (has_port && !one_port);
  if ((range->flags & ~known) != 0 || (many && !source) ||
      (source && (!has_address || range->first != range->last)))
    return read;
  TranslateAction action{.direction = source ? Direction::src : Direction::dst,
                         .port = one_port ? range->first_port : std::uint16_t{0},
                         .to_here = here};
  if (has_address && !here) action.address = range->first;
  read.action = action;
  return read;
}

ReadAction connection_mark(std::uint8_t mode, std::uint32_t value, std::uint32_t connection_mask,
                           std::uint32_t packet_mask) {
  using Move = ConnectionMarkAction::Way;
  const auto masks = fmt::format(" --nfmask {:#x} --ctmask {:#x}", packet_mask, connection_mask);
  ConnectionMarkAction action{
      .value = value, .connection_mask = connection_mask, .packet_mask = packet_mask};
  switch (mode) {
    case XT_CONNMARK_SET:
      return {fmt::format("-j CONNMARK --set-xmark {:#x}/{:#x}", value, connection_mask), action};
    case XT_CONNMARK_SAVE:
      action.way = Move::save;
      return {"-j CONNMARK --save-mark" + masks, action};
    case XT_CONNMARK_RESTORE:
      action.way = Move::restore;
      return {"-j CONNMARK --restore-mark" + masks, action};
    default:
      return {"-j CONNMARK [...]", UnknownAction{}};
  }
}

std::optional<ReadAction> read_connection_mark(const Extension& given) {
  if (given.revision == 1) {
    const auto info = data_of<xt_connmark_tginfo1>(given);
    if (!info) return std::nullopt;
    return connection_mark(info->mode, info->ctmark, info->ctmask, info->nfmask);
  }
  const auto info = data_of<xt_connmark_tginfo2>(given);
  if (!info || given.revision != 2 || info->shift_bits != 0) return std::nullopt;
  return connection_mark(info->mode, info->ctmark, info->ctmask, info->nfmask);
}

// A CT target that sets a zone, a helper or a timeout leaves the packet as it is.
std::optional<ReadAction> read_tracking(const Extension& given) {
  if (given.name == "NOTRACK") return ReadAction{"-j NOTRACK", NoTrackAction{}};
  const auto size = given.revision == 0 ? sizeof(xt_ct_target_info) : sizeof(xt_ct_target_info_v1);
  std::uint16_t flags = 0;
  if (given.data.size() != padded_size(size)) return std::nullopt;
  std::memcpy(&flags, given.data.data(), sizeof flags);
  if ((flags & XT_CT_NOTRACK) != 0) return ReadAction{"-j CT --notrack", NoTrackAction{}};
  return ReadAction{"-j CT [...]", NoAction{}};
}

constexpr std::array<std::string_view, 16> kHarmless = {
    "LOG", "NFLOG", "ULOG",        "TCPMSS", "TRACE", "AUDIT",    "CHECKSUM",  "DSCP",
    "TOS", "ECN",   "TCPOPTSTRIP", "TEE",    "SET",   "CLASSIFY", "IDLETIMER", "RATEEST"};

std::optional<ReadAction> read_known_target(const Extension& given, Family family) {
  if (given.name == "REJECT") return read_reject(given, family);
  if (given.name == "CONNMARK") return read_connection_mark(given);
  if (given.name == "CT" || given.name == "NOTRACK") return read_tracking(given);
  for (const auto* name : {"SNAT", "DNAT", "REDIRECT", "MASQUERADE"})
    if (given.name == name) return read_nat(given, family);
  return std::nullopt;
}

// The action of a target in our vocabulary.
struct KnownAction {
  Action operator()(const ForeignTarget&) const { return UnknownAction{}; }
  Action operator()(const VerdictMapTarget&) const { return UnknownAction{}; }
  Action operator()(const DestinationTarget& target) const {
    return TranslateAction{.direction = Direction::dst,
                           .address = target.address,
                           .port = target.port,
                           .to_here = false};
  }
  Action operator()(const SourceTarget& target) const {
    return TranslateAction{
        .direction = Direction::src, .address = target.address, .port = 0, .to_here = false};
  }
  Action operator()(const KeepDestinationTarget&) const { return NoAction{}; }
  Action operator()(const DestinationMapTarget&) const { return UnknownAction{}; }
  Action operator()(const UnacceleratedTarget&) const { return NoAction{}; }
  Action operator()(const auto& known) const { return known; }
};

}  // namespace

Action action_of_target(const Target& target) {
  return std::visit(KnownAction{}, target);
}

ReadAction read_target(Family family, const Extension& extension) {
  if (const auto ours = decode_target(extension, family))
    return {.text = to_string(*ours, family), .action = action_of_target(*ours)};
  if (auto known = read_known_target(extension, family)) return std::move(*known);
  const bool harmless = std::ranges::find(kHarmless, extension.name) != kHarmless.end();
  ReadAction read{.text = fmt::format("-j {} [...]", extension.name)};
  if (harmless) read.action = NoAction{};
  return read;
}

}  // namespace ipvsproxier::ipset

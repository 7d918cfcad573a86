#include "ipset/rules/rule_extensions.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter/xt_addrtype.h>
#include <linux/netfilter/xt_comment.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_ipvs.h>
#include <linux/netfilter/xt_mark.h>
#include <linux/netfilter/xt_physdev.h>
#include <linux/netfilter/xt_set.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv4/ipt_REJECT.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <linux/netfilter_ipv6/ip6t_REJECT.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::Protocol;
using netlink::Result;

// The data of an extension under construction, edited in place. Decoders encode what they
// understood and compare the bytes with their input, so padding inside the kernel's structures must
// be zero, as iptables leaves it; copying a structure need not copy its padding.
template <typename Info>
class Data {
 public:
  Info* operator->() { return reinterpret_cast<Info*>(bytes_.data()); }

  Extension extension(std::string name, std::uint8_t revision) {
    return {.name = std::move(name), .revision = revision, .data = std::move(bytes_)};
  }

 private:
  static_assert(std::is_trivially_copyable_v<Info> &&
                alignof(Info) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  Bytes bytes_ = Bytes(sizeof(Info));
};

template <typename Info>
std::optional<Info> info_of(const Extension& extension) {
  Info info;
  if (extension.data.size() != padded_size(sizeof info)) return std::nullopt;
  std::memcpy(&info, extension.data.data(), sizeof info);
  return info;
}

// `encoded` has no padding at its end yet.
bool says_the_same(const Extension& given, const Extension& encoded) {
  return given.name == encoded.name && given.revision == encoded.revision &&
         given.data.size() == padded_size(encoded.data.size()) &&
         std::equal(encoded.data.begin(), encoded.data.end(), given.data.begin());
}

Error malformed(std::string text) {
  return {.kind = ErrorKind::malformed, .where = std::move(text)};
}

// XT_CONNTRACK_STATE_BIT of <linux/netfilter/xt_conntrack.h>.
constexpr std::uint16_t state_bit(unsigned state) {
  return static_cast<std::uint16_t>(1U << (state % IP_CT_IS_REPLY + 1));
}
constexpr auto kNew = state_bit(IP_CT_NEW);
constexpr auto kRelated = state_bit(IP_CT_RELATED);
constexpr auto kEstablished = state_bit(IP_CT_ESTABLISHED);

constexpr std::uint8_t kEchoRequestV4 = 8;
constexpr std::uint8_t kEchoRequestV6 = 128;

struct MatchEncoder {
  Family family;
  SetResolver& sets;

  Result<Extension> operator()(const SetMatch& match) const {
    Data<xt_set_info_match_v4> info;
    if (match.directions.empty() || match.directions.size() > 3)
      return malformed("set match of " + match.set + ": one to three directions");
    auto index = sets.index_of(match.set, family);
    if (!index) return index.error();
    info->match_set.index = *index;
    info->match_set.dim = static_cast<std::uint8_t>(match.directions.size());
    if (match.negated) info->match_set.flags = IPSET_INV_MATCH;
    for (std::size_t i = 0; i < match.directions.size(); ++i)
      if (match.directions[i] == Direction::src)
        info->match_set.flags =
            static_cast<std::uint8_t>(info->match_set.flags | IPSET_DIM_ONE_SRC << i);
    return info.extension("set", 4);
  }
  Result<Extension> operator()(const MarkMatch& match) const {
    Data<xt_mark_mtinfo1> info;
    info->mark = match.value;
    info->mask = match.mask;
    info->invert = match.negated;
    return info.extension("mark", 1);
  }
  Result<Extension> operator()(const ConntrackStateMatch& match) const {
    Data<xt_conntrack_mtinfo3> info;
    info->match_flags = XT_CONNTRACK_STATE;
    info->state_mask = static_cast<std::uint16_t>(
        (match.is_new ? kNew : 0) | (match.related ? kRelated : 0) |
        (match.established ? kEstablished : 0) | (match.invalid ? XT_CONNTRACK_STATE_INVALID : 0));
    return info.extension("conntrack", 3);
  }
  Result<Extension> operator()(const LocalAddressMatch& match) const {
    Data<xt_addrtype_info_v1> info;
    const bool source = match.direction == Direction::src;
    (source ? info->source : info->dest) = XT_ADDRTYPE_LOCAL;
    if (match.negated) info->flags = source ? XT_ADDRTYPE_INVERT_SOURCE : XT_ADDRTYPE_INVERT_DEST;
    return info.extension("addrtype", 1);
  }
  Result<Extension> operator()(const BridgePortInMatch& match) const {
    Data<xt_physdev_info> info;
    info->bitmask = XT_PHYSDEV_OP_ISIN;
    info->invert = match.negated ? XT_PHYSDEV_OP_ISIN : 0;
    return info.extension("physdev", 0);
  }
  Result<Extension> operator()(const IpvsMatch& match) const {
    if (match.address.family() != family)
      return malformed("ipvs match of the other family: " + match.address.to_string());
    Data<xt_ipvs_mtinfo> info;
    const auto bytes = match.address.bytes();
    std::memcpy(&info->vaddr, bytes.data(), bytes.size());
    // All 16 bytes, as iptables sets them for IPv4 too.
    std::memset(&info->vmask, 0xff, sizeof info->vmask);
    info->vport = htons(match.port);
    info->l4proto = static_cast<std::uint8_t>(match.protocol);
    info->bitmask = XT_IPVS_IPVS_PROPERTY | XT_IPVS_PROTO | XT_IPVS_VADDR | XT_IPVS_VPORT;
    return info.extension("ipvs", 0);
  }
  Result<Extension> operator()(const DestinationPortMatch& match) const {
    switch (match.protocol) {
      case Protocol::tcp:
        return ports_of<xt_tcp>(match).extension("tcp", 0);
      case Protocol::udp:
        return ports_of<xt_udp>(match).extension("udp", 0);
      case Protocol::sctp:
        break;
    }
    Data<SctpInfo> info;
    info->dpts[0] = match.first;
    info->dpts[1] = match.last;
    info->flags = SctpInfo::kDestination;
    // As iptables fills the types of chunks, of which there are none.
    for (std::size_t i = 0; i < sizeof info->chunk_flags; i += 3) info->chunk_flags[i] = 0xff;
    return info.extension("sctp", 0);
  }
  template <typename Info>
  static Data<Info> ports_of(const DestinationPortMatch& match) {
    Data<Info> info;
    info->spts[1] = 0xffff;
    info->dpts[0] = match.first;
    info->dpts[1] = match.last;
    return info;
  }
  Result<Extension> operator()(const auto& of_nft) const {
    return malformed("only nf_tables has: " + to_string(Match(of_nft), family));
  }
  Result<Extension> operator()(const EchoRequestMatch&) const {
    if (family == Family::ipv4) {
      Data<ipt_icmp> info;
      info->type = kEchoRequestV4;
      info->code[1] = 0xff;
      return info.extension("icmp", 0);
    }
    Data<ip6t_icmp> info;
    info->type = kEchoRequestV6;
    info->code[1] = 0xff;
    return info.extension("icmp6", 0);
  }
};

// A verdict or a jump: libiptc needs only the name and fills in the verdict.
Extension standard_target(const std::string& name) {
  return {.name = name, .data = Bytes(sizeof(xt_standard_target) - sizeof(xt_entry_target))};
}

struct TargetEncoder {
  Family family;

  Result<Extension> operator()(Verdict verdict) const {
    switch (verdict) {
      case Verdict::accept:
        return standard_target("ACCEPT");
      case Verdict::drop:
        return standard_target("DROP");
      case Verdict::return_:
        return standard_target("RETURN");
    }
    return malformed("unknown verdict");
  }
  Result<Extension> operator()(const JumpTarget& target) const {
    if (target.chain.empty() || target.chain.size() >= XT_EXTENSION_MAXNAMELEN)
      return malformed("name of the chain: 1 to 28 bytes: " + target.chain);
    return standard_target(target.chain);
  }
  Result<Extension> operator()(const MarkTarget& target) const {
    Data<xt_mark_tginfo2> info;
    info->mark = target.value;
    info->mask = target.mask;
    return info.extension("MARK", 2);
  }
  Result<Extension> operator()(const MasqueradeTarget& target) const {
    if (target.clears != 0) return malformed("only nf_tables clears a mark and masquerades");
    const unsigned flags = target.random_fully ? NF_NAT_RANGE_PROTO_RANDOM_FULLY : 0;
    if (family == Family::ipv4) {
      Data<nf_nat_ipv4_multi_range_compat> info;
      info->rangesize = 1;
      info->range[0].flags = flags;
      return info.extension("MASQUERADE", 0);
    }
    Data<nf_nat_range> info;
    info->flags = flags;
    return info.extension("MASQUERADE", 0);
  }
  Result<Extension> operator()(const RejectTarget&) const {
    if (family == Family::ipv4) {
      Data<ipt_reject_info> info;
      info->with = IPT_ICMP_PORT_UNREACHABLE;
      return info.extension("REJECT", 0);
    }
    Data<ip6t_reject_info> info;
    info->with = IP6T_ICMP6_PORT_UNREACH;
    return info.extension("REJECT", 0);
  }
  Result<Extension> operator()(const DestinationTarget& target) const {
    if (target.address.family() != family)
      return malformed("destination of the other family: " + target.address.to_string());
    Data<nf_nat_range2> info;
    info->flags = NF_NAT_RANGE_MAP_IPS | (target.port == 0 ? 0U : NF_NAT_RANGE_PROTO_SPECIFIED);
    const auto bytes = target.address.bytes();
    std::memcpy(&info->min_addr, bytes.data(), bytes.size());
    std::memcpy(&info->max_addr, bytes.data(), bytes.size());
    info->min_proto.all = htons(target.port);
    info->max_proto.all = htons(target.port);
    return info.extension("DNAT", 2);
  }
  // The revisions that iptables writes.
  Result<Extension> operator()(const SourceTarget& target) const {
    if (target.address.family() != family)
      return malformed("source of the other family: " + target.address.to_string());
    const auto bytes = target.address.bytes();
    if (family == Family::ipv4) {
      Data<nf_nat_ipv4_multi_range_compat> info;
      info->rangesize = 1;
      info->range[0].flags = NF_NAT_RANGE_MAP_IPS;
      std::memcpy(&info->range[0].min_ip, bytes.data(), bytes.size());
      std::memcpy(&info->range[0].max_ip, bytes.data(), bytes.size());
      return info.extension("SNAT", 0);
    }
    Data<nf_nat_range> info;
    info->flags = NF_NAT_RANGE_MAP_IPS;
    std::memcpy(&info->min_addr, bytes.data(), bytes.size());
    std::memcpy(&info->max_addr, bytes.data(), bytes.size());
    return info.extension("SNAT", 1);
  }
  Result<Extension> operator()(const ForeignTarget& target) const {
    return malformed("not a rule of ours: " + target.description);
  }
  Result<Extension> operator()(const auto& of_nft) const {
    return malformed("only nf_tables has: " + to_string(Target(of_nft), family));
  }
};

std::optional<Match> guess_set(const Extension& given, SetResolver& sets) {
  const auto info = info_of<xt_set_info_match_v4>(given);
  if (!info || info->match_set.dim > 3) return std::nullopt;
  auto name = sets.name_of(info->match_set.index);
  if (!name) return std::nullopt;
  SetMatch match{.set = std::move(*name),
                 .negated = (info->match_set.flags & IPSET_INV_MATCH) != 0};
  for (unsigned i = 0; i < info->match_set.dim; ++i)
    match.directions.push_back(info->match_set.flags & IPSET_DIM_ONE_SRC << i ? Direction::src
                                                                              : Direction::dst);
  return match;
}

std::optional<Match> guess_mark(const Extension& given) {
  const auto info = info_of<xt_mark_mtinfo1>(given);
  if (!info) return std::nullopt;
  return MarkMatch{.value = info->mark, .mask = info->mask, .negated = info->invert != 0};
}

std::optional<Match> guess_conntrack(const Extension& given) {
  const auto info = info_of<xt_conntrack_mtinfo3>(given);
  if (!info) return std::nullopt;
  return ConntrackStateMatch{.is_new = (info->state_mask & kNew) != 0,
                             .related = (info->state_mask & kRelated) != 0,
                             .established = (info->state_mask & kEstablished) != 0,
                             .invalid = (info->state_mask & XT_CONNTRACK_STATE_INVALID) != 0};
}

std::optional<Match> guess_addrtype(const Extension& given) {
  const auto info = info_of<xt_addrtype_info_v1>(given);
  if (!info) return std::nullopt;
  return LocalAddressMatch{.direction = info->source != 0 ? Direction::src : Direction::dst,
                           .negated = info->flags != 0};
}

std::optional<Match> guess_ipvs(const Extension& given, Family family) {
  const auto info = info_of<xt_ipvs_mtinfo>(given);
  if (!info) return std::nullopt;
  Bytes address(netlink::address_bits(family) / 8U);
  std::memcpy(address.data(), &info->vaddr, address.size());
  const auto ip = netlink::IpAddress::from_bytes(family, address);
  const auto protocol = static_cast<netlink::Protocol>(info->l4proto);
  if (!ip || netlink::to_string(protocol) == "?") return std::nullopt;
  return IpvsMatch{.protocol = protocol, .address = *ip, .port = ntohs(info->vport)};
}

template <typename Info>
std::optional<Match> guess_ports(const Extension& given, Protocol protocol) {
  const auto info = info_of<Info>(given);
  if (!info || info->dpts[0] == 0) return std::nullopt;
  return DestinationPortMatch{.protocol = protocol, .first = info->dpts[0], .last = info->dpts[1]};
}

// The value that the extension may mean; the caller checks that it means nothing more.
std::optional<Match> guess_match(const Extension& given, Family family, SetResolver& sets) {
  if (given.name == "set") return guess_set(given, sets);
  if (given.name == "mark") return guess_mark(given);
  if (given.name == "conntrack") return guess_conntrack(given);
  if (given.name == "addrtype") return guess_addrtype(given);
  if (given.name == "ipvs") return guess_ipvs(given, family);
  if (given.name == "icmp" || given.name == "icmp6") return EchoRequestMatch{};
  if (given.name == "tcp") return guess_ports<xt_tcp>(given, Protocol::tcp);
  if (given.name == "udp") return guess_ports<xt_udp>(given, Protocol::udp);
  if (given.name == "sctp") return guess_ports<SctpInfo>(given, Protocol::sctp);
  if (given.name != "physdev") return std::nullopt;
  const auto info = info_of<xt_physdev_info>(given);
  if (!info) return std::nullopt;
  return BridgePortInMatch{.negated = info->invert != 0};
}

std::optional<Target> guess_destination(const Extension& given, Family family) {
  const auto info = info_of<nf_nat_range2>(given);
  if (!info) return std::nullopt;
  Bytes address(netlink::address_bits(family) / 8U);
  std::memcpy(address.data(), &info->min_addr, address.size());
  return DestinationTarget{.address = *netlink::IpAddress::from_bytes(family, address),
                           .port = ntohs(info->min_proto.all)};
}

std::optional<Target> guess_source(const Extension& given, Family family) {
  Bytes address(netlink::address_bits(family) / 8U);
  if (family == Family::ipv4) {
    const auto info = info_of<nf_nat_ipv4_multi_range_compat>(given);
    if (!info) return std::nullopt;
    std::memcpy(address.data(), &info->range[0].min_ip, address.size());
  } else {
    const auto info = info_of<nf_nat_range>(given);
    if (!info) return std::nullopt;
    std::memcpy(address.data(), &info->min_addr, address.size());
  }
  return SourceTarget{.address = *netlink::IpAddress::from_bytes(family, address)};
}

std::optional<Target> guess_target(const Extension& given, Family family) {
  if (given.name == "REJECT") return RejectTarget{};
  if (given.name == "MARK") {
    const auto info = info_of<xt_mark_tginfo2>(given);
    if (!info) return std::nullopt;
    return MarkTarget{.value = info->mark, .mask = info->mask};
  }
  if (given.name == "DNAT") return guess_destination(given, family);
  if (given.name == "SNAT") return guess_source(given, family);
  if (given.name != "MASQUERADE") return std::nullopt;
  if (family == Family::ipv4) {
    const auto info = info_of<nf_nat_ipv4_multi_range_compat>(given);
    if (!info) return std::nullopt;
    return MasqueradeTarget{.random_fully = info->range[0].flags != 0};
  }
  const auto info = info_of<nf_nat_range>(given);
  if (!info) return std::nullopt;
  return MasqueradeTarget{.random_fully = info->flags != 0};
}

}  // namespace

std::uint16_t echo_protocol(Family family) {
  return static_cast<std::uint16_t>(family == Family::ipv4 ? int{IPPROTO_ICMP}
                                                           : int{IPPROTO_ICMPV6});
}

Result<Extension> encode_comment(const std::string& comment) {
  Data<xt_comment_info> info;
  if (comment.size() >= sizeof info->comment || comment.find('\0') != std::string::npos)
    return malformed("comment: at most 255 bytes without NUL: " + comment);
  comment.copy(info->comment, sizeof info->comment - 1);
  return info.extension("comment", 0);
}

Result<Extension> encode_match(const Match& match, Family family, SetResolver& sets) {
  return std::visit(MatchEncoder{family, sets}, match);
}

Result<Extension> encode_target(const Target& target, Family family) {
  return std::visit(TargetEncoder{family}, target);
}

std::optional<std::string> decode_comment(const Extension& given) {
  const auto info = info_of<xt_comment_info>(given);
  if (!info) return std::nullopt;
  std::string comment(info->comment, strnlen(info->comment, sizeof info->comment));
  const auto encoded = encode_comment(comment);
  if (comment.empty() || !encoded || !says_the_same(given, *encoded)) return std::nullopt;
  return comment;
}

std::optional<Match> decode_match(const Extension& given, Family family, SetResolver& sets) {
  auto match = guess_match(given, family, sets);
  if (!match) return std::nullopt;
  const auto encoded = encode_match(*match, family, sets);
  if (!encoded || !says_the_same(given, *encoded)) return std::nullopt;
  return match;
}

std::optional<Target> decode_target(const Extension& given, Family family) {
  auto target = guess_target(given, family);
  if (!target) return std::nullopt;
  const auto encoded = encode_target(*target, family);
  if (!encoded || !says_the_same(given, *encoded)) return std::nullopt;
  return target;
}

}  // namespace ipvsproxier::ipset

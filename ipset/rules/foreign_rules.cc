#include "ipset/rules/foreign_rules.h"

#include <netinet/in.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/rule_extensions.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

static_assert(static_cast<int>(IPT_INV_VIA_OUT) == static_cast<int>(IP6T_INV_VIA_OUT));
static_assert(static_cast<int>(IPT_INV_DSTIP) == static_cast<int>(IP6T_INV_DSTIP));
static_assert(static_cast<int>(IPT_INV_PROTO) == static_cast<int>(IP6T_INV_PROTO));

const ipt_ip& ip_part(const ipt_entry& entry) {
  return entry.ip;
}
const ip6t_ip6& ip_part(const ip6t_entry& entry) {
  return entry.ipv6;
}

// Flags of the header that differ between the families.
struct HeaderFlags {
  bool asks_protocol = false;
  bool goes_to = false;
  bool fragments = false;
  bool unknown = false;
};

HeaderFlags flags_of(const ipt_ip& ip) {
  constexpr unsigned kInverse = IPT_INV_VIA_IN | IPT_INV_VIA_OUT | IPT_INV_SRCIP | IPT_INV_DSTIP |
                                IPT_INV_FRAG | IPT_INV_PROTO;
  return {.asks_protocol = ip.proto != 0,
          .goes_to = (ip.flags & IPT_F_GOTO) != 0,
          .fragments = (ip.flags & IPT_F_FRAG) != 0,
          .unknown = (ip.flags & ~unsigned{IPT_F_GOTO | IPT_F_FRAG}) != 0 ||
                     (ip.invflags & ~kInverse) != 0};
}

HeaderFlags flags_of(const ip6t_ip6& ip) {
  constexpr unsigned kInverse =
      IP6T_INV_VIA_IN | IP6T_INV_VIA_OUT | IP6T_INV_SRCIP | IP6T_INV_DSTIP | IP6T_INV_PROTO;
  return {.asks_protocol = (ip.flags & IP6T_F_PROTO) != 0,
          .goes_to = (ip.flags & IP6T_F_GOTO) != 0,
          .unknown = (ip.flags & ~unsigned{IP6T_F_PROTO | IP6T_F_GOTO}) != 0 ||
                     (ip.invflags & ~kInverse) != 0};
}

template <typename Field>
Bytes bytes_of_field(const Field& field) {
  Bytes bytes(sizeof field);
  std::memcpy(bytes.data(), &field, sizeof field);
  return bytes;
}

// nullopt: the mask is not that of a prefix, or the address has bits beyond it.
std::optional<IpPrefix> prefix_of(Family family, const Bytes& address, const Bytes& mask) {
  unsigned length = 0;
  for (const auto byte : mask) length += static_cast<unsigned>(__builtin_popcount(byte));
  const auto bits = static_cast<std::uint8_t>(length);
  const auto ip = *IpAddress::from_bytes(family, address);
  const Bytes ones(address.size(), 0xff);
  const auto whole = IpPrefix::of(*IpAddress::from_bytes(family, ones), bits);
  const auto prefix = IpPrefix::of(ip, bits);
  if (whole.address != *IpAddress::from_bytes(family, mask) || prefix.address != ip)
    return std::nullopt;
  return prefix;
}

std::string protocol_name(std::uint16_t number) {
  switch (number) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_SCTP:
      return "sctp";
    case IPPROTO_ICMP:
      return "icmp";
    case IPPROTO_ICMPV6:
      return "ipv6-icmp";
  }
  return std::to_string(number);
}

std::optional<Verdict> verdict_of(std::string_view label) {
  if (label == "ACCEPT") return Verdict::accept;
  if (label == "DROP") return Verdict::drop;
  if (label == "RETURN") return Verdict::return_;
  return std::nullopt;
}

class Reader {
 public:
  Reader(Family family, SetResolver& sets) : family_(family), sets_(sets) {}

  Rule read(const EntryParts& parts, std::string_view label) && {
    const bool goes_to = family_ == Family::ipv4 ? read_header<ipt_entry>(parts.header)
                                                 : read_header<ip6t_entry>(parts.header);
    for (const auto& match : parts.matches) add_match(match);
    add_target(parts.target, label, goes_to);
    rule_.target = std::move(foreign_);
    return std::move(rule_);
  }

 private:
  void say(bool negated, const std::string& words) {
    if (words.empty()) return;
    if (!foreign_.description.empty()) foreign_.description += ' ';
    foreign_.description += (negated ? "! " : "") + words;
  }
  // In place: of a Condition that is moved, g++ 12 at -O2 takes other alternatives for
  // uninitialized.
  template <typename One>
  void ask(One&& condition) {
    foreign_.conditions.emplace_back(std::forward<One>(condition));
  }

  // Adds the header's conditions; true if the rule goes to its chain without coming back (-g).
  template <typename Entry>
  bool read_header(const Bytes& header) {
    Entry entry;
    std::memcpy(&entry, header.data(), sizeof entry);
    const auto& ip = ip_part(entry);
    const auto flags = flags_of(ip);
    const auto inverse = [&](unsigned flag) { return (ip.invflags & flag) != 0; };
    add_address(Direction::src, bytes_of_field(ip.src), bytes_of_field(ip.smsk),
                inverse(IPT_INV_SRCIP));
    add_address(Direction::dst, bytes_of_field(ip.dst), bytes_of_field(ip.dmsk),
                inverse(IPT_INV_DSTIP));
    add_link(Direction::src, ip.iniface, ip.iniface_mask, inverse(IPT_INV_VIA_IN));
    add_link(Direction::dst, ip.outiface, ip.outiface_mask, inverse(IPT_INV_VIA_OUT));
    if (flags.asks_protocol) {
      say(inverse(IPT_INV_PROTO), "-p " + protocol_name(ip.proto));
      ask(ProtocolCondition{.number = ip.proto, .negated = inverse(IPT_INV_PROTO)});
    } else if (inverse(IPT_INV_PROTO)) {
      unknown("protocol");
    }
    if (flags.fragments) {
      const bool negated = family_ == Family::ipv4 && inverse(IPT_INV_FRAG);
      say(negated, "-f");
      ask(FixedCondition{.holds = negated});
    }
    if (flags.unknown) unknown("flags");
    return flags.goes_to;
  }

  void unknown(const std::string& what) {
    say(false, "[" + what + "]");
    ask(UnknownCondition{});
  }

  void add_address(Direction direction, const Bytes& address, const Bytes& mask, bool negated) {
    const auto prefix = prefix_of(family_, address, mask);
    if (!prefix) return unknown(direction == Direction::src ? "source mask" : "destination mask");
    if (prefix->length == 0 && !negated) return;
    say(negated,
        fmt::format("-{} {}", direction == Direction::src ? "s" : "d", prefix->to_string()));
    ask(AddressCondition{.direction = direction, .prefix = *prefix, .negated = negated});
  }

  // A whole name is compared including its NUL, a prefix without.
  template <typename Name, typename Mask>
  void add_link(Direction direction, const Name& name, const Mask& mask, bool negated) {
    const auto* const end = std::end(mask);
    const auto* const rest =
        std::find_if(std::begin(mask), end, [](auto byte) { return byte != 0xff; });
    const auto length = static_cast<std::size_t>(rest - std::begin(mask));
    const bool whole_mask = std::all_of(rest, end, [](auto byte) { return byte == 0; });
    const auto compared = strnlen(std::begin(name), length);
    if (!whole_mask || compared + 1 < length) return unknown("interface");
    if (length == 0 && !negated) return;
    LinkCondition condition{.direction = direction,
                            .name = std::string(std::begin(name), compared),
                            .is_prefix = compared == length,
                            .negated = negated};
    say(negated, fmt::format("-{} {}{}", direction == Direction::src ? "i" : "o", condition.name,
                             condition.is_prefix ? "+" : ""));
    ask(std::move(condition));
  }

  void add_match(const Extension& extension) {
    if (extension.name == "comment") {
      const auto comment = decode_comment(extension).value_or("");
      if (!comment.empty()) rule_.comment += (rule_.comment.empty() ? "" : "; ") + comment;
      return;
    }
    if (auto match = decode_match(extension, family_, sets_)) {
      say(false, to_string(*match, family_));
      rule_.matches.push_back(std::move(*match));
      return;
    }
    auto read = read_match(extension);
    say(false, read.text);
    for (auto& condition : read.conditions) ask(std::move(condition));
  }

  void add_target(const Extension& target, std::string_view label, bool goes_to) {
    auto& action = foreign_.action;
    if (!target.name.empty()) {
      auto read = read_target(family_, target);
      say(false, read.text);
      action = std::move(read.action);
    } else if (const auto verdict = verdict_of(label)) {
      say(false, fmt::format("-j {}", label));
      action = *verdict;
    } else if (label.empty()) {
      // A rule that only counts.
      action = NoAction{};
    } else if (label == "QUEUE") {
      say(false, "-j QUEUE");
    } else {
      say(false, fmt::format("-{} {}", goes_to ? "g" : "j", label));
      if (goes_to)
        action = GotoAction{std::string(label)};
      else
        action = JumpTarget{std::string(label)};
    }
  }

  Family family_;
  SetResolver& sets_;
  Rule rule_;
  ForeignTarget foreign_;
};

}  // namespace

Rule read_foreign(Family family, const EntryParts& parts, std::string_view label,
                  SetResolver& sets) {
  return Reader(family, sets).read(parts, label);
}

}  // namespace ipvsproxier::ipset

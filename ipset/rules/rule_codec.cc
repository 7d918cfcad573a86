#include "ipset/rules/rule_codec.h"

#include <netinet/in.h>

// Must come after <netinet/in.h>: these headers would define its names again.
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "ipset/rules/foreign_rules.h"
#include "ipset/rules/rule_extensions.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;
using netlink::Result;

static_assert(static_cast<int>(IPT_INV_SRCIP) == static_cast<int>(IP6T_INV_SRCIP));
static_assert(static_cast<int>(IPT_INV_VIA_IN) == static_cast<int>(IP6T_INV_VIA_IN));

ipt_ip& ip_of(ipt_entry& entry) {
  return entry.ip;
}
ip6t_ip6& ip_of(ip6t_entry& entry) {
  return entry.ipv6;
}

// IPv4 checks the protocol if it is not 0, IPv6 only if a flag says so.
std::uint8_t flags_for(const ipt_ip&, std::uint16_t) {
  return 0;
}
std::uint8_t flags_for(const ip6t_ip6&, std::uint16_t protocol) {
  return protocol != 0 ? IP6T_F_PROTO : 0;
}

bool is_echo(const Match& match) {
  return std::holds_alternative<EchoRequestMatch>(match);
}

Result<std::uint16_t> protocol_of(const Rule& rule, Family family) {
  const bool echo = std::any_of(rule.matches.begin(), rule.matches.end(), is_echo);
  if (echo && rule.protocol)
    return Error{.kind = ErrorKind::malformed,
                 .where = "an echo request match implies its own protocol"};
  if (echo) return echo_protocol(family);
  return static_cast<std::uint16_t>(rule.protocol ? static_cast<unsigned>(*rule.protocol) : 0U);
}

template <typename Field>
netlink::Status encode_prefix(const IpPrefix& prefix, Family family, Field& field, Field& mask) {
  if (prefix.family() != family)
    return Error{.kind = ErrorKind::malformed,
                 .where = "address of the other family: " + prefix.to_string()};
  const auto address = prefix.address.bytes();
  const Bytes ones(address.size(), 0xff);
  const auto bits = IpPrefix::of(*IpAddress::from_bytes(family, ones), prefix.length);
  std::memcpy(&field, address.data(), address.size());
  std::memcpy(&mask, bits.address.bytes().data(), address.size());
  return {};
}

template <typename Ip>
netlink::Status encode_addresses(const Rule& rule, Family family, Ip& ip) {
  if (rule.source) {
    if (rule.source->negated) ip.invflags |= IPT_INV_SRCIP;
    auto status = encode_prefix(rule.source->prefix, family, ip.src, ip.smsk);
    if (!status) return status;
  }
  if (rule.destination) return encode_prefix(*rule.destination, family, ip.dst, ip.dmsk);
  return {};
}

// Same bytes as from xtables_parse_interface() of iptables: a whole name is compared including its
// NUL, a prefix without; the '+' of a prefix stays in the name.
template <typename Ip>
netlink::Status encode_interface(const InInterfaceMatch& match, Ip& ip) {
  const auto text = match.name + (match.is_prefix ? "+" : "");
  if (match.name.empty() || text.size() >= sizeof ip.iniface)
    return Error{.kind = ErrorKind::malformed,
                 .where = fmt::format("interface name {:?}: 1 to {} bytes", match.name,
                                      sizeof ip.iniface - 1)};
  text.copy(ip.iniface, sizeof ip.iniface - 1);
  std::memset(ip.iniface_mask, 0xff, match.name.size() + (match.is_prefix ? 0 : 1));
  if (match.negated) ip.invflags |= IPT_INV_VIA_IN;
  return {};
}

template <typename Entry>
Result<Bytes> encode_header(const Rule& rule, Family family) {
  // Edited in place: copying the structure need not copy its padding, and padding is compared.
  Bytes bytes(sizeof(Entry));
  auto& ip = ip_of(*reinterpret_cast<Entry*>(bytes.data()));
  const auto protocol = protocol_of(rule, family);
  if (!protocol) return protocol.error();
  ip.proto = *protocol;
  ip.flags = flags_for(ip, *protocol);
  if (auto status = encode_addresses(rule, family, ip); !status) return status.error();
  if (rule.in_interface)
    if (auto status = encode_interface(*rule.in_interface, ip); !status) return status.error();
  return bytes;
}

template <typename Ip>
bool decode_interface(const Ip& ip, Rule& rule) {
  const auto* const begin = std::begin(ip.iniface_mask);
  const auto* const end = std::end(ip.iniface_mask);
  const auto* const rest = std::find_if(begin, end, [](auto byte) { return byte != 0xff; });
  if (std::any_of(rest, end, [](auto byte) { return byte != 0; })) return false;
  const auto length = static_cast<std::size_t>(rest - begin);
  if (length == 0) return true;
  const auto name_length = strnlen(ip.iniface, length);
  if (name_length + 1 < length) return false;
  rule.in_interface = InInterfaceMatch{.name = std::string(ip.iniface, name_length),
                                       .is_prefix = name_length == length,
                                       .negated = (ip.invflags & IPT_INV_VIA_IN) != 0};
  return true;
}

// Of a mask that is not that of a prefix: any, which encodes to another mask.
template <typename Field>
IpPrefix decode_prefix(const Field& field, const Field& mask, Family family) {
  const auto bytes_of = [](const Field& of) {
    Bytes bytes(sizeof of);
    std::memcpy(bytes.data(), &of, sizeof of);
    return bytes;
  };
  std::uint8_t length = 0;
  for (const auto byte : bytes_of(mask))
    length = static_cast<std::uint8_t>(length + __builtin_popcount(byte));
  return {.address = *IpAddress::from_bytes(family, bytes_of(field)), .length = length};
}

template <typename Ip>
void decode_addresses(const Ip& ip, Family family, Rule& rule) {
  const bool negated = (ip.invflags & IPT_INV_SRCIP) != 0;
  const auto source = decode_prefix(ip.src, ip.smsk, family);
  if (source.length != 0 || negated)
    rule.source = SourceMatch{.prefix = source, .negated = negated};
  const auto destination = decode_prefix(ip.dst, ip.dmsk, family);
  if (destination.length != 0) rule.destination = destination;
}

// Reads the parts of the rule that stand in the header; `protocol` gets the header's protocol.
// False if the header holds anything that the rule does not express.
template <typename Entry>
bool decode_header(Bytes header, Family family, Rule& rule, std::uint16_t& protocol) {
  const auto& ip = ip_of(*reinterpret_cast<Entry*>(header.data()));
  if (!decode_interface(ip, rule)) return false;
  decode_addresses(ip, family, rule);
  protocol = ip.proto;

  // Compare the header with the encoded rule: any other bit that is set makes a difference.
  auto known = encode_header<Entry>(rule, family);
  if (!known) return false;
  auto& own = ip_of(*reinterpret_cast<Entry*>(known->data()));
  own.proto = protocol;
  own.flags = flags_for(own, protocol);
  std::memcpy(own.iniface, ip.iniface, sizeof own.iniface);  // bytes beyond the mask are arbitrary
  // Compare all fields; ip6t_ip6 has padding after the last one.
  using Ip = std::remove_cvref_t<decltype(own)>;
  constexpr auto kFields = offsetof(Ip, invflags) + sizeof(own.invflags);
  const auto* ours = reinterpret_cast<const std::uint8_t*>(&own);
  return std::equal(ours, ours + kFields, reinterpret_cast<const std::uint8_t*>(&ip));
}

std::optional<Protocol> service_protocol(std::uint16_t number) {
  for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp})
    if (static_cast<std::uint16_t>(protocol) == number) return protocol;
  return std::nullopt;
}

// Sets the rule's protocol, unless an echo request implies it.
bool settle_protocol(std::uint16_t number, Family family, Rule& rule) {
  const bool echo = std::any_of(rule.matches.begin(), rule.matches.end(), is_echo);
  if (echo) return number == echo_protocol(family);
  rule.protocol = service_protocol(number);
  return number == 0 || rule.protocol.has_value();
}

std::optional<Target> target_of_label(std::string_view label) {
  if (label.empty() || label == "QUEUE") return std::nullopt;
  if (label == "ACCEPT") return Verdict::accept;
  if (label == "DROP") return Verdict::drop;
  if (label == "RETURN") return Verdict::return_;
  return JumpTarget{.chain = std::string(label)};
}

// nullopt: the entry is outside our vocabulary.
std::optional<Rule> decode_ours(Family family, const EntryParts& parts, std::string_view label,
                                SetResolver& sets) {
  Rule rule;
  std::uint16_t protocol = 0;
  const bool header_known = family == Family::ipv4
                                ? decode_header<ipt_entry>(parts.header, family, rule, protocol)
                                : decode_header<ip6t_entry>(parts.header, family, rule, protocol);
  if (!header_known) return std::nullopt;
  for (const auto& extension : parts.matches) {
    if (extension.name == "comment" && rule.comment.empty() && rule.matches.empty()) {
      auto comment = decode_comment(extension);
      if (!comment) return std::nullopt;
      rule.comment = std::move(*comment);
      continue;
    }
    auto match = decode_match(extension, family, sets);
    if (!match) return std::nullopt;
    rule.matches.emplace_back(std::move(*match));
  }
  if (!settle_protocol(protocol, family, rule)) return std::nullopt;
  auto target =
      parts.target.name.empty() ? target_of_label(label) : decode_target(parts.target, family);
  if (!target) return std::nullopt;
  rule.target = std::move(*target);
  return rule;
}

}  // namespace

Result<Bytes> encode_rule(const Rule& rule, Family family, SetResolver& sets) {
  auto header = family == Family::ipv4 ? encode_header<ipt_entry>(rule, family)
                                       : encode_header<ip6t_entry>(rule, family);
  if (!header) return header.error();
  EntryParts parts{.header = std::move(*header)};
  if (!rule.comment.empty()) {
    auto comment = encode_comment(rule.comment);
    if (!comment) return comment.error();
    parts.matches.push_back(std::move(*comment));
  }
  for (const auto& match : rule.matches) {
    auto extension = encode_match(match, family, sets);
    if (!extension) return extension.error();
    parts.matches.push_back(std::move(*extension));
  }
  auto target = encode_target(rule.target, family);
  if (!target) return target.error();
  parts.target = std::move(*target);
  return join_entry(family, parts);
}

Rule decode_rule(Family family, std::span<const std::uint8_t> bytes, std::string_view label,
                 SetResolver& sets) {
  const auto parts = split_entry(family, bytes);
  if (!parts) return Rule{.target = ForeignTarget{.description = "[malformed entry]"}};
  if (auto rule = decode_ours(family, *parts, label, sets)) return std::move(*rule);
  return read_foreign(family, *parts, label, sets);
}

std::string comment_of(Family family, std::span<const std::uint8_t> bytes) {
  const auto parts = split_entry(family, bytes);
  if (!parts) return "";
  for (const auto& extension : parts->matches)
    if (extension.name == "comment") return decode_comment(extension).value_or("");
  return "";
}

std::vector<ExtensionName> extensions_of(const Rule& rule, Family family) {
  // The index of a set does not matter for this purpose.
  struct AnySet : SetResolver {
    Result<std::uint16_t> index_of(const std::string&, Family) override { return std::uint16_t{0}; }
    std::optional<std::string> name_of(std::uint16_t) override { return std::nullopt; }
  } any_set;
  std::vector<ExtensionName> result;
  if (!rule.comment.empty()) result.push_back({.name = "comment"});
  for (const auto& match : rule.matches)
    if (const auto extension = encode_match(match, family, any_set))
      result.push_back({.name = extension->name, .revision = extension->revision});
  const bool standard = std::holds_alternative<Verdict>(rule.target) ||
                        std::holds_alternative<JumpTarget>(rule.target);
  if (const auto target = encode_target(rule.target, family); target && !standard)
    result.push_back({.name = target->name, .revision = target->revision, .is_target = true});
  return result;
}

std::set<ExtensionName> extensions_of(const TableRules& rules) {
  std::set<ExtensionName> extensions;
  const auto add = [&](const Rule& rule) {
    for (auto& extension : extensions_of(rule, rules.family))
      extensions.insert(std::move(extension));
  };
  for (const auto& chain : rules.chains)
    for (const auto& rule : chain.rules) add(rule);
  for (const auto& jump : rules.jumps) add(jump.rule);
  return extensions;
}

std::string module_of(Family family) {
  return family == Family::ipv4 ? "ip_tables" : "ip6_tables";
}

std::string module_of(Family family, Table table) {
  return fmt::format("{}_{}", family == Family::ipv4 ? "iptable" : "ip6table", to_string(table));
}

std::string module_of(Family family, const ExtensionName& extension) {
  if (extension.name == "REJECT") return family == Family::ipv4 ? "ipt_REJECT" : "ip6t_REJECT";
  if (extension.name == "MARK") return "xt_mark";  // match and target in one
  if (extension.name == "icmp" || extension.name == "icmp6") return module_of(family);
  if (extension.name == "tcp" || extension.name == "udp") return "xt_tcpudp";
  if (extension.name == "DNAT" || extension.name == "SNAT") return "xt_nat";
  return "xt_" + extension.name;
}

std::set<std::string> modules_of(const TableRules& rules) {
  std::set<std::string> modules{module_of(rules.family, rules.table)};
  for (const auto& extension : extensions_of(rules))
    modules.insert(module_of(rules.family, extension));
  return modules;
}

}  // namespace ipvsproxier::ipset

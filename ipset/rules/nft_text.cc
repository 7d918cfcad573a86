#include "ipset/rules/nft_text.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {

namespace {

std::string_view nft_negation(bool negated) {
  return negated ? "!= " : "";
}

std::string_view network_of(Family family) {
  return family == Family::ipv4 ? "ip" : "ip6";
}

struct NftMatchText {
  const Rule& rule;
  Family family;

  std::string operator()(const SetMatch& match) const {
    if (asks_for_port(rule, match))
      return fmt::format("{} dport {}@{}", to_lower_string(*rule.protocol),
                         nft_negation(match.negated), name_in_table(match.set));
    std::string addresses;
    for (const auto direction : match.directions)
      addresses += fmt::format("{}{} {}addr", addresses.empty() ? "" : " . ", network_of(family),
                               direction == Direction::src ? "s" : "d");
    return fmt::format("{} {}@{}", addresses, nft_negation(match.negated),
                       name_in_table(match.set));
  }
  std::string operator()(const DestinationPortMatch& match) const {
    const auto last = match.last == match.first ? "" : fmt::format("-{}", match.last);
    return fmt::format("{} dport {}{}", to_lower_string(match.protocol), match.first, last);
  }
  std::string operator()(const MarkMatch& match) const {
    return fmt::format("meta mark & {:#x} {} {:#x}", match.mask,
                       match.negated ? "!=" : "==", match.value);
  }
  std::string operator()(const ConntrackStateMatch& match) const {
    std::string states;
    const auto add = [&](bool wanted, std::string_view name) {
      if (wanted) states += fmt::format("{}{}", states.empty() ? "" : ",", name);
    };
    add(match.invalid, "invalid");
    add(match.established, "established");
    add(match.related, "related");
    add(match.is_new, "new");
    return "ct state " + (states.empty() ? "& 0x0 != 0x0" : states);
  }
  std::string operator()(const LocalAddressMatch& match) const {
    return fmt::format("fib {}addr type {}local", match.direction == Direction::src ? "s" : "d",
                       nft_negation(match.negated));
  }
  std::string operator()(const EchoRequestMatch&) const {
    return family == Family::ipv4 ? "icmp type echo-request" : "icmpv6 type echo-request";
  }
  std::string operator()(const ConfirmedMatch& match) const {
    return fmt::format("ct status & confirmed {} confirmed", match.negated ? "!=" : "==");
  }
  std::string operator()(const UntranslatedMatch&) const { return "ct status & dnat == 0"; }
  std::string operator()(const OutsideMatch& match) const {
    std::string text;
    for (const auto& prefix : match.prefixes)
      text += fmt::format("{}{} saddr != {}", text.empty() ? "" : " ", network_of(family),
                          prefix.to_string());
    return text;
  }
  template <typename OfIptables>
  std::string operator()(const OfIptables& match) const {
    return to_string(Match(match), family);
  }
};

struct NftTargetText {
  Family family;

  std::string operator()(Verdict verdict) const {
    switch (verdict) {
      case Verdict::accept:
        return "accept";
      case Verdict::drop:
        return "drop";
      case Verdict::return_:
        return "return";
    }
    return "";
  }
  std::string operator()(const JumpTarget& target) const { return "jump " + target.chain; }
  std::string operator()(const MarkTarget& target) const {
    std::string text = "meta mark set meta mark";
    if (target.mask == target.value) return text + fmt::format(" | {:#x}", target.value);
    // As in C, & comes before ^.
    if (target.mask != 0) text += fmt::format(" & {:#x}", ~target.mask);
    if (target.value != 0) text += fmt::format(" ^ {:#x}", target.value);
    return text;
  }
  std::string operator()(const MasqueradeTarget& target) const {
    const auto before =
        target.clears == 0 ? "" : (*this)(MarkTarget{.value = 0, .mask = target.clears}) + " ";
    return before + (target.random_fully ? "masquerade fully-random" : "masquerade");
  }
  std::string operator()(const RejectTarget&) const { return "reject"; }
  std::string operator()(const DestinationTarget& target) const {
    return "dnat to " + (target.port == 0 ? target.address.to_string()
                                          : netlink::to_string(target.address, target.port));
  }
  std::string operator()(const SourceTarget& target) const {
    return "snat to " + target.address.to_string();
  }
  std::string operator()(const ForeignTarget& target) const { return target.description; }
  std::string operator()(const VerdictMapTarget& target) const {
    return fmt::format("{} daddr . meta l4proto . th dport vmap @{}", network_of(family),
                       name_in_table(target.map));
  }
  std::string operator()(const KeepDestinationTarget&) const {
    return fmt::format("dnat to {} daddr", network_of(family));
  }
  std::string operator()(const DestinationMapTarget& target) const {
    return fmt::format("dnat {0} to {0} daddr . meta l4proto . th dport map @{1}",
                       network_of(family), name_in_table(target.map));
  }
  std::string operator()(const UnacceleratedTarget&) const {
    return fmt::format("ct expectation set \"{}\"", kUnaccelerated);
  }
};

// Whether nft(8) can name the interface, or the interfaces of the prefix.
bool has_nft_words(const InInterfaceMatch& match) {
  constexpr std::size_t kMost = 15;  // IFNAMSIZ - 1
  const auto& name = match.name;
  if (name.empty() || name.size() > kMost || name.find('"') != std::string::npos ||
      name.find('\0') != std::string::npos)
    return false;
  if (match.is_prefix) return !name.ends_with('\\');
  return !name.ends_with('*') || (name.size() > 1 && name.find('\\') == std::string::npos);
}

// In quotation marks nft(8) takes "*" at the end for any further letters, and then each "\\" only
// as the sign that the next character stands for itself. What it has no words for is in brackets.
std::string interface_name(const InInterfaceMatch& match) {
  const auto& name = match.name;
  if (has_nft_words(match)) {
    if (match.is_prefix) return fmt::format("\"{}*\"", name);
    if (!name.ends_with('*')) return fmt::format("\"{}\"", name);
    return fmt::format("\"{}\\*\"", name.substr(0, name.size() - 1));
  }
  std::string text = "[";
  for (const char one : name) {
    const bool is_plain =
        one != '\0' && std::string_view("*\\\"]").find(one) == std::string_view::npos;
    text += is_plain ? std::string(1, one) : fmt::format("\\x{:02x}", static_cast<unsigned>(one));
  }
  return text + (match.is_prefix ? "*]" : "]");
}

// A port has its protocol before it.
bool has_port(const Rule& rule) {
  return names_port(rule) || std::ranges::any_of(rule.matches, [&](const Match& match) {
           const auto* set = std::get_if<SetMatch>(&match);
           return set != nullptr && asks_for_port(rule, *set);
         });
}

}  // namespace

std::string to_nft_string(const Rule& rule, Family family) {
  std::string result;
  if (rule.source)
    result += fmt::format("{} saddr {}{} ", network_of(family), nft_negation(rule.source->negated),
                          rule.source->prefix.to_string());
  if (const auto& to = rule.destination) {
    const bool is_host = to->length == netlink::address_bits(family);
    result += fmt::format("{} daddr {} ", network_of(family),
                          is_host ? to->address.to_string() : to->to_string());
  }
  if (rule.in_interface)
    result += fmt::format("iifname {}{} ", nft_negation(rule.in_interface->negated),
                          interface_name(*rule.in_interface));
  if (rule.protocol && !has_port(rule))
    result += fmt::format("meta l4proto {} ", to_lower_string(*rule.protocol));
  for (const auto& match : rule.matches)
    result += std::visit(NftMatchText{rule, family}, match) + ' ';
  return result + std::visit(NftTargetText{family}, rule.target);
}

}  // namespace ipvsproxier::ipset

#include "ipset/rules/nft_text.h"

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
    if (rule.protocol)
      return fmt::format("{} dport @{}", to_lower_string(*rule.protocol), name_in_table(match.set));
    std::string addresses;
    for (const auto direction : match.directions)
      addresses += fmt::format("{}{} {}addr", addresses.empty() ? "" : " . ", network_of(family),
                               direction == Direction::src ? "s" : "d");
    return fmt::format("{} @{}", addresses, name_in_table(match.set));
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
    add(match.established, "established");
    add(match.related, "related");
    add(match.is_new, "new");
    return "ct state " + states;
  }
  std::string operator()(const LocalAddressMatch& match) const {
    return fmt::format("fib {}addr type {}local", match.direction == Direction::src ? "s" : "d",
                       nft_negation(match.negated));
  }
  std::string operator()(const EchoRequestMatch&) const {
    return family == Family::ipv4 ? "icmp type echo-request" : "icmpv6 type echo-request";
  }
  std::string operator()(const ConfirmedMatch&) const {
    return "ct status & confirmed == confirmed";
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
    return fmt::format("meta mark set meta mark {} {:#x}", target.mask == 0 ? "^" : "|",
                       target.value);
  }
  std::string operator()(const MasqueradeTarget& target) const {
    return target.random_fully ? "masquerade fully-random" : "masquerade";
  }
  std::string operator()(const RejectTarget&) const { return "reject"; }
  std::string operator()(const ForeignTarget& target) const { return target.description; }
  std::string operator()(const VerdictMapTarget& target) const {
    return fmt::format("{} daddr . meta l4proto . th dport vmap @{}", network_of(family),
                       name_in_table(target.map));
  }
  std::string operator()(const KeepDestinationTarget&) const {
    return fmt::format("dnat to {} daddr", network_of(family));
  }
};

std::string_view to_string(ChainHook::Hook hook) {
  switch (hook) {
    case ChainHook::Hook::prerouting:
      return "prerouting";
    case ChainHook::Hook::input:
      return "input";
    case ChainHook::Hook::output:
      return "output";
    case ChainHook::Hook::postrouting:
      return "postrouting";
  }
  return "";
}

}  // namespace

std::string to_nft_string(const Rule& rule, Family family) {
  std::string result;
  if (rule.source)
    result += fmt::format("{} saddr {}{} ", network_of(family), nft_negation(rule.source->negated),
                          rule.source->prefix.to_string());
  if (rule.in_interface)
    result += fmt::format("iifname {}\"{}{}\" ", nft_negation(rule.in_interface->negated),
                          rule.in_interface->name, rule.in_interface->is_prefix ? "*" : "");
  for (const auto& match : rule.matches)
    result += std::visit(NftMatchText{rule, family}, match) + ' ';
  return result + std::visit(NftTargetText{family}, rule.target);
}

std::string to_nft_string(const TableRules& table) {
  std::string result;
  for (const auto& chain : table.chains) {
    result += fmt::format("chain {} {{\n", chain.name);
    if (const auto hook = hook_of(chain.name))
      result += fmt::format("\ttype {} hook {} priority {}; policy accept;\n",
                            hook->type == ChainHook::Type::nat ? "nat" : "filter",
                            to_string(hook->hook), hook->priority);
    for (const auto& rule : chain.rules)
      result += fmt::format("\t{}\n", to_nft_string(rule, table.family));
    result += "}\n";
  }
  return result;
}

}  // namespace ipvsproxier::ipset

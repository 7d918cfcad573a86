#include "ipset/rules/rule_types.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

using netlink::Family;

std::string_view to_string(Table table) {
  switch (table) {
    case Table::filter:
      return "filter";
    case Table::nat:
      return "nat";
    case Table::mangle:
      return "mangle";
    case Table::raw:
      return "raw";
    case Table::kube_ipvs:
      return "kube-ipvs";
  }
  return "";
}

namespace {

std::string negation(bool negated) {
  return negated ? "! " : "";
}

// The quoting of xtables_save_string() in iptables 1.8.9: plain words stay bare, other text is
// quoted, with a backslash before both kinds of quotes and before a backslash.
std::string quoted(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string directions_text(const std::vector<Direction>& directions) {
  std::string result;
  for (const auto direction : directions) {
    if (!result.empty()) result += ',';
    result += direction == Direction::src ? "src" : "dst";
  }
  return result;
}

struct MatchText {
  Family family;

  std::string operator()(const SetMatch& match) const {
    return fmt::format("-m set {}--match-set {} {}", negation(match.negated), match.set,
                       directions_text(match.directions));
  }
  std::string operator()(const MarkMatch& match) const {
    const auto mask = match.mask == 0xffffffff ? "" : fmt::format("/{:#x}", match.mask);
    return fmt::format("-m mark {}--mark {:#x}{}", negation(match.negated), match.value, mask);
  }
  std::string operator()(const ConntrackStateMatch& match) const {
    std::string states;
    const auto add = [&](bool wanted, std::string_view name) {
      if (!wanted) return;
      if (!states.empty()) states += ',';
      states += name;
    };
    add(match.invalid, "INVALID");
    add(match.is_new, "NEW");
    add(match.related, "RELATED");
    add(match.established, "ESTABLISHED");
    return "-m conntrack --ctstate " + states;
  }
  std::string operator()(const LocalAddressMatch& match) const {
    return fmt::format("-m addrtype {}--{}-type LOCAL", negation(match.negated),
                       match.direction == Direction::src ? "src" : "dst");
  }
  std::string operator()(const BridgePortInMatch& match) const {
    return fmt::format("-m physdev {}--physdev-is-in", negation(match.negated));
  }
  std::string operator()(const IpvsMatch& match) const {
    return fmt::format("-m ipvs --vproto {} --vaddr {} --vport {}",
                       static_cast<unsigned>(match.protocol), match.address.to_string(),
                       match.port);
  }
  std::string operator()(const EchoRequestMatch&) const {
    return family == Family::ipv4 ? "-m icmp --icmp-type 8" : "-m icmp6 --icmpv6-type 128";
  }
  std::string operator()(const DestinationPortMatch& match) const {
    const auto last = match.last == match.first ? "" : fmt::format(":{}", match.last);
    return fmt::format("-m {} --dport {}{}", netlink::to_lower_string(match.protocol), match.first,
                       last);
  }
  std::string operator()(const ConfirmedMatch& match) const {
    return fmt::format("-m conntrack {}--ctstatus CONFIRMED", negation(match.negated));
  }
  std::string operator()(const UntranslatedMatch&) const { return "-m conntrack ! --ctstate DNAT"; }
  std::string operator()(const OutsideMatch& match) const {
    std::string text;
    for (const auto& prefix : match.prefixes)
      text += fmt::format("{}! -s {}", text.empty() ? "" : " ", prefix.to_string());
    return text;
  }
};

struct TargetText {
  Family family;

  std::string operator()(Verdict verdict) const {
    switch (verdict) {
      case Verdict::accept:
        return "-j ACCEPT";
      case Verdict::drop:
        return "-j DROP";
      case Verdict::return_:
        return "-j RETURN";
    }
    return "";
  }
  std::string operator()(const JumpTarget& target) const { return "-j " + target.chain; }
  std::string operator()(const MarkTarget& target) const {
    return fmt::format("-j MARK --set-xmark {:#x}/{:#x}", target.value, target.mask);
  }
  std::string operator()(const MasqueradeTarget& target) const {
    return target.random_fully ? "-j MASQUERADE --random-fully" : "-j MASQUERADE";
  }
  std::string operator()(const RejectTarget&) const {
    return family == Family::ipv4 ? "-j REJECT --reject-with icmp-port-unreachable"
                                  : "-j REJECT --reject-with icmp6-port-unreachable";
  }
  std::string operator()(const DestinationTarget& target) const {
    return "-j DNAT --to-destination " + (target.port == 0
                                              ? target.address.to_string()
                                              : netlink::to_string(target.address, target.port));
  }
  std::string operator()(const SourceTarget& target) const {
    return "-j SNAT --to-source " + target.address.to_string();
  }
  std::string operator()(const ForeignTarget& target) const { return target.description; }
  std::string operator()(const VerdictMapTarget& target) const { return "vmap @" + target.map; }
  std::string operator()(const KeepDestinationTarget&) const { return "dnat to ip daddr"; }
  std::string operator()(const DestinationMapTarget& target) const {
    return "dnat to map @" + target.map;
  }
  std::string operator()(const UnacceleratedTarget&) const { return "ct expectation set"; }
};

std::string_view protocol_text(const Rule& rule, Family family) {
  if (rule.protocol) return netlink::to_lower_string(*rule.protocol);
  const bool echo = std::any_of(rule.matches.begin(), rule.matches.end(), [](const Match& match) {
    return std::holds_alternative<EchoRequestMatch>(match);
  });
  if (!echo) return "";
  return family == Family::ipv4 ? "icmp" : "ipv6-icmp";
}

}  // namespace

std::vector<std::string> looked_up_by(const Rule& rule) {
  std::vector<std::string> names;
  if (std::holds_alternative<ForeignTarget>(rule.target)) return names;
  for (const auto& match : rule.matches)
    if (const auto* set = std::get_if<SetMatch>(&match)) names.push_back(set->set);
  if (const auto* map = std::get_if<VerdictMapTarget>(&rule.target)) names.push_back(map->map);
  if (const auto* map = std::get_if<DestinationMapTarget>(&rule.target)) names.push_back(map->map);
  return names;
}

std::string to_string(const Match& match, Family family) {
  return std::visit(MatchText{family}, match);
}

std::string to_string(const Target& target, Family family) {
  return std::visit(TargetText{family}, target);
}

std::string to_string(const Rule& rule, Family family) {
  std::string result;
  const auto comment = rule.comment.empty()
                           ? std::string()
                           : fmt::format("-m comment --comment {} ", quoted(rule.comment));
  if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target))
    return comment + foreign->description;
  if (rule.source)
    result +=
        fmt::format("{}-s {} ", negation(rule.source->negated), rule.source->prefix.to_string());
  if (rule.destination) result += fmt::format("-d {} ", rule.destination->to_string());
  if (rule.in_interface)
    result += fmt::format("{}-i {}{} ", negation(rule.in_interface->negated),
                          rule.in_interface->name, rule.in_interface->is_prefix ? "+" : "");
  if (const auto protocol = protocol_text(rule, family); !protocol.empty())
    result += fmt::format("-p {} ", protocol);
  result += comment;
  for (const auto& match : rule.matches) result += to_string(match, family) + ' ';
  return result + to_string(rule.target, family);
}

bool names_chain(const RuleRemoval& removal, std::string_view chain) {
  const auto begins = [&](const std::string& prefix) { return chain.starts_with(prefix); };
  return std::find(removal.chains.begin(), removal.chains.end(), chain) != removal.chains.end() ||
         std::any_of(removal.prefixes.begin(), removal.prefixes.end(), begins) ||
         (removal.of_earlier_builds && is_of_earlier_build(chain));
}

std::string_view in_use_text(std::string_view chain) {
  return chain.ends_with(kMarkChain) ? "stays with its rule: rules of others lead to it"
                                     : "stays, empty: rules of others lead to it";
}

bool names_jump(const RuleRemoval& removal, std::string_view to, std::string_view comment) {
  return std::any_of(removal.jumps.begin(), removal.jumps.end(), [&](const JumpPattern& jump) {
    return jump.to == to && (jump.comment.empty() || jump.comment == comment);
  });
}

bool same_rules(const Chain& actual, const Chain& desired) {
  if (desired.name != kUnorderedChain) return actual.rules == desired.rules;
  const auto sorted = [](std::vector<Rule> rules) {
    const auto rest = std::find_if_not(rules.begin(), rules.end(), [](const Rule& rule) {
      return rule.target == Target(Verdict::return_);
    });
    std::sort(rest, rules.end());
    return std::pair(rest - rules.begin(), std::move(rules));
  };
  return sorted(actual.rules) == sorted(desired.rules);
}

bool is_of_earlier_build(std::string_view chain) {
  constexpr std::string_view kFirst = "KUBE-IN-CLUSTER";
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  constexpr std::size_t kCount = 11;
  if (!chain.starts_with(kFirst)) return false;
  chain.remove_prefix(kFirst.size());
  return chain.empty() || (chain.size() == 1 + kCount && chain.front() == '-' &&
                           chain.find_first_not_of(kLetters, 1) == std::string_view::npos);
}

bool holds(const TableRules& actual, const TableRules& desired) {
  if (actual.family != desired.family || actual.table != desired.table) return false;
  std::map<std::string_view, const Chain*> unwanted;
  for (const auto& chain : actual.chains) unwanted.emplace(chain.name, &chain);
  const auto has_chain = [&](const Chain& chain) {
    const auto found = unwanted.find(chain.name);
    if (found == unwanted.end() || !same_rules(*found->second, chain)) return false;
    unwanted.erase(found);
    return true;
  };
  const auto has_jump = [&](const BaseJump& jump) {
    return std::find(actual.jumps.begin(), actual.jumps.end(), jump) != actual.jumps.end();
  };
  // Of iptables an empty chain may have to stay, as rules of others lead to it.
  const auto is_surplus = [&](const auto& chain) {
    return actual.table == Table::kube_ipvs ||
           (is_of_earlier_build(chain.first) && !chain.second->rules.empty());
  };
  return std::all_of(desired.chains.begin(), desired.chains.end(), has_chain) &&
         std::all_of(desired.jumps.begin(), desired.jumps.end(), has_jump) &&
         std::ranges::none_of(unwanted, is_surplus);
}

}  // namespace ipvsproxier::ipset

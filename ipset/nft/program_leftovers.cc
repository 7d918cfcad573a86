#include "ipset/nft/program_leftovers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "ipset/nftables/rule_decoding.h"
#include "ipset/sets/printable_name.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ipset {

namespace {

// What a rule does, as far as it matters here.
enum class Deed : std::uint8_t { nothing, rejects, translates, untracks };

struct LeftRule {
  Deed deed = Deed::nothing;
  std::string leads_to;  // a chain; "": none
};

struct LeftChains {
  std::string table;  // "legacy IPv4 table nat"
  PacketFilter of = PacketFilter::iptables;
  std::set<std::string> bases;
  std::map<std::string, std::vector<LeftRule>> rules;
};

struct Program {
  std::string_view prefix;  // of its chains
  std::string_view name;
  std::set<Deed> deeds;  // that it does to Services
  std::string_view remedy;
};

const std::array<Program, 3>& programs() {
  static const std::array<Program, 3> all = {{
      {"ANTREA-",
       "Antrea",
       {Deed::translates},
       "set antreaProxy.proxyAll of Antrea to false and restart the node"},
      {"CILIUM_",
       "Cilium",
       {Deed::rejects, Deed::translates, Deed::untracks},
       "run cilium-dbg post-uninstall-cleanup, or restart the node, where Cilium has ended; set "
       "its "
       "kubeProxyReplacement to false where it runs"},
      {"OLD_CILIUM_",
       "Cilium",
       {Deed::rejects, Deed::translates, Deed::untracks},
       "run cilium-dbg post-uninstall-cleanup, or restart the node"},
  }};
  return all;
}

const Program* program_of(std::string_view chain) {
  for (const auto& program : programs())
    if (chain.starts_with(program.prefix)) return &program;
  return nullptr;
}

std::string_view text_of_deed(Deed deed) {
  switch (deed) {
    case Deed::rejects:
      return "drops or rejects packets of Services";
    case Deed::translates:
      return "gives packets of Services another destination";
    case Deed::untracks:
      return "keeps packets of pods from connection tracking, by which their answers are "
             "translated "
             "back";
    case Deed::nothing:
      break;
  }
  return "";
}

std::set<std::string> reached(const LeftChains& chains) {
  std::set<std::string> seen;
  std::vector<std::string> next(chains.bases.begin(), chains.bases.end());
  while (!next.empty()) {
    const auto chain = std::move(next.back());
    next.pop_back();
    const auto rules = chains.rules.find(chain);
    if (rules == chains.rules.end() || !seen.insert(chain).second) continue;
    for (const auto& rule : rules->second)
      if (!rule.leads_to.empty()) next.push_back(rule.leads_to);
  }
  return seen;
}

std::vector<FirewallWarning> judge_left(const LeftChains& chains) {
  std::vector<FirewallWarning> warnings;
  for (const auto& name : reached(chains)) {
    const auto* program = program_of(name);
    if (program == nullptr) continue;
    for (const auto& rule : chains.rules.at(name)) {
      if (!program->deeds.contains(rule.deed)) continue;
      const auto chain = printable_name(name);
      warnings.push_back(
          {.drops = true,
           .chain = fmt::format("{} {}", chains.table, chain),
           .text = fmt::format("{}: chain {} of {} {}; {}", chains.table, chain, program->name,
                               text_of_deed(rule.deed), program->remedy),
           .table = chains.table,
           .of = chains.of});
      break;
    }
  }
  return warnings;
}

struct ActionReader {
  bool names_address;
  LeftRule operator()(Verdict verdict) const {
    return {verdict == Verdict::drop ? Deed::rejects : Deed::nothing, {}};
  }
  LeftRule operator()(const JumpTarget& jump) const { return {Deed::nothing, jump.chain}; }
  LeftRule operator()(const GotoAction& go) const { return {Deed::nothing, go.chain}; }
  LeftRule operator()(const RejectTarget& /*target*/) const { return {Deed::rejects, {}}; }
  LeftRule operator()(const RejectAction& /*action*/) const { return {Deed::rejects, {}}; }
  LeftRule operator()(const TranslateAction& action) const {
    return {action.direction == Direction::dst ? Deed::translates : Deed::nothing, {}};
  }
  LeftRule operator()(const DestinationTarget& /*target*/) const { return {Deed::translates, {}}; }
  // By mark it is about the program's own packets.
  LeftRule operator()(const NoTrackAction& /*action*/) const {
    return {names_address ? Deed::untracks : Deed::nothing, {}};
  }
  LeftRule operator()(const ForeignTarget& target) const {
    return std::visit(*this, target.action);
  }
  LeftRule operator()(const auto& /*other*/) const { return {}; }
};

LeftRule left_rule(const Rule& rule) {
  bool names_address = rule.source.has_value() || rule.destination.has_value();
  if (const auto* foreign = std::get_if<ForeignTarget>(&rule.target))
    names_address = names_address || std::ranges::any_of(foreign->conditions, [](const auto& one) {
                      return std::holds_alternative<AddressCondition>(one);
                    });
  return std::visit(ActionReader{names_address}, rule.target);
}

LeftRule left_rule(const std::vector<NftStep>& steps) {
  LeftRule rule;
  bool names_address = false;
  for (const auto& step : steps) {
    if (const auto* payload = std::get_if<netlink::NftPayload>(&step))
      names_address = names_address || payload->header == netlink::NftHeader::network;
    LeftRule one;
    if (const auto* immediate = std::get_if<netlink::NftImmediate>(&step)) {
      if (const auto* verdict = std::get_if<netlink::NftVerdict>(&immediate->data))
        one = std::visit(ActionReader{names_address}, action_of(*verdict));
    } else if (std::holds_alternative<netlink::NftReject>(step)) {
      one.deed = Deed::rejects;
    } else if (const auto* nat = std::get_if<netlink::NftNat>(&step)) {
      one.deed = nat->destination ? Deed::translates : Deed::nothing;
    } else if (std::holds_alternative<netlink::NftRedirect>(step)) {
      one.deed = Deed::translates;
    } else if (std::holds_alternative<netlink::NftNoTrack>(step)) {
      one.deed = names_address ? Deed::untracks : Deed::nothing;
    } else if (const auto* extension = std::get_if<ExtensionStep>(&step)) {
      if (extension->action) one = std::visit(ActionReader{names_address}, *extension->action);
    }
    if (one.deed != Deed::nothing) rule.deed = one.deed;
    if (!one.leads_to.empty()) rule.leads_to = one.leads_to;
  }
  return rule;
}

bool has_one(const auto& chains) {
  return std::ranges::any_of(chains,
                             [](const auto& chain) { return program_of(chain.first) != nullptr; });
}

}  // namespace

std::vector<FirewallWarning> find_program_leftovers(netlink::Family family, Table table,
                                                    const WholeTable& whole) {
  if (!has_one(whole.chains)) return {};
  LeftChains chains{
      .table = fmt::format("legacy {} table {}", netlink::to_string(family), to_string(table)),
      .bases = {},
      .rules = {}};
  for (const auto& [chain, policy] : whole.policies) chains.bases.insert(chain);
  for (const auto& [chain, rules] : whole.chains)
    for (const auto& rule : rules) chains.rules[chain].push_back(left_rule(rule));
  return judge_left(chains);
}

std::vector<FirewallWarning> find_program_leftovers(ReadTable& table) {
  if (!has_one(table.contents().chains)) return {};
  LeftChains chains{.table = nft_table_name(printable_name(netlink::to_string(table.key()))),
                    .of = PacketFilter::nftables,
                    .bases = {},
                    .rules = {}};
  const auto family = has_family(table.key().family, netlink::Family::ipv4) ? netlink::Family::ipv4
                                                                            : netlink::Family::ipv6;
  for (const auto& [chain, listed] : table.contents().chains) {
    if (listed.base) chains.bases.insert(chain);
    for (const auto& steps : *table.rules(chain, family))
      chains.rules[chain].push_back(left_rule(steps));
  }
  return judge_left(chains);
}

}  // namespace ipvsproxier::ipset

#include "cmd/ipvsctl/rules/rule_listing.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/set_listing.h"
#include "ipset/nftables/foreign_steps.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using ipset::Table;

namespace {

struct StateWords {
  std::string_view name;  // in documents
  std::string_view note;  // in text
};

// In the order of RuleState.
constexpr std::array<StateWords, 4> kStates = {
    {{"ours", ""}, {"foreign", "NOT OURS"}, {"leftover", "LEFT OVER"}, {"notJudged", ""}}};

const StateWords& state_words(RuleState state) {
  return kStates.at(static_cast<std::size_t>(state));
}

bool is_nft(const ReviewedChain& chain) {
  return chain.table.table == Table::kube_ipvs;
}

std::string_view policy_text(const ReviewedChain& chain) {
  const bool drops = chain.policy == ipset::Verdict::drop;
  if (is_nft(chain)) return drops ? "drop" : "accept";
  return drops ? "DROP" : "ACCEPT";
}

std::string rule_line(const ReviewedChain& chain, const ReviewedRule& rule) {
  if (is_nft(chain)) return ipset::to_nft_string(rule.rule, chain.table.family);
  return fmt::format("-A {} {}", chain.name, to_string(rule.rule, chain.table.family));
}

// Where the kernel calls a chain, in the words of nft(8): "type filter hook input priority -5".
std::string base_text(const netlink::NftBase& base) {
  constexpr std::array kHookWords = {"prerouting", "input", "forward", "output", "postrouting"};
  const auto hook = static_cast<std::size_t>(base.hook);
  return fmt::format("type {} hook {} priority {}", api::visible(base.type),
                     hook < kHookWords.size() ? kHookWords.at(hook) : "unknown", base.priority);
}

// --- text

std::string title(const ReviewedChain& chain) {
  auto text = fmt::format("{} {} {}", to_string(chain.table.family), to_string(chain.table.table),
                          api::visible(chain.name));
  if (chain.base) text += ", " + base_text(*chain.base);
  if (chain.policy) text += fmt::format(", policy {}", policy_text(chain));
  if (chain.wanted)
    text +=
        fmt::format(": NOT CALLED AS IT SHOULD BE: {}, policy accept", base_text(*chain.wanted));
  if (chain.dormant) text += ": NOT CALLED, its table is dormant";
  if (chain.foreign) text += ": NOT OURS";
  return text + "\n";
}

std::string notes(const ReviewedRule& rule, const RuleReading& reading) {
  std::string text(state_words(rule.state).note);
  const auto add = [&](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  for (const auto& name : ipset::looked_up_by(rule.rule)) {
    const auto set = reading.sets.find(name);
    if (set == reading.sets.end())
      add(name + ": not there");
    else
      add(fmt::format("{}: {} element{}", name, set->second, set->second == 1 ? "" : "s"));
  }
  return text.empty() ? "" : "  # " + text;
}

// Each rule of iptables counts.
std::optional<ipset::RuleCount> told_count(const ReviewedChain& chain, const ReviewedRule& rule) {
  if (is_nft(chain)) return rule.count;
  return rule.count.value_or(ipset::RuleCount{});
}

// Our rules of nf_tables count nothing: without counters of others there are no columns for them.
std::string paragraph(const ReviewedChain& chain, const RuleReading& reading) {
  auto text = title(chain);
  const bool counts = std::ranges::any_of(
      chain.rules, [&](const auto& rule) { return !is_nft(chain) || rule.count; });
  for (const auto& rule : chain.rules) {
    if (const auto count = told_count(chain, rule))
      text += fmt::format("{:>10} {:>12}", count->packets, count->bytes);
    else if (counts)
      text += fmt::format("{:>10} {:>12}", "-", "-");
    text += fmt::format("  {}{}\n", api::visible(rule_line(chain, rule)),
                        api::visible(notes(rule, reading)));
  }
  return text;
}

// Lines about tables in which our rules are expected and absent.
std::string empty_tables(const std::vector<ReviewedChain>& chains, const RuleReading& reading,
                         const RuleChoice& choice) {
  std::string text;
  if (!choice.chain.empty()) return text;
  // Of neither packet filter can be told that it is the one in use.
  const bool has_nothing = reading.nft.empty() && review_rules(reading, {}).empty();
  const auto is_expected = [&](Table table) {
    if (choice.table) return *choice.table == table;
    if (table == Table::kube_ipvs) return has_nothing || !reading.nft.empty();
    return reading.nft.empty() && (table == Table::nat || table == Table::filter);
  };
  for (const auto family : netlink::kFamilies)
    for (const auto table : {Table::nat, Table::filter, Table::mangle, Table::kube_ipvs}) {
      if (choice.family.value_or(family) != family || !is_expected(table)) continue;
      const auto is_of = [&](const ReviewedChain& chain) {
        return chain.table == plan::TableKey{family, table};
      };
      if (std::none_of(chains.begin(), chains.end(), is_of))
        text += fmt::format("{} {}: nothing of ours\n", to_string(family), to_string(table));
    }
  return text;
}

// Sets of others in our table; chains of others have paragraphs.
std::vector<ForeignSet> chosen_foreign_sets(const RuleReading& reading, const RuleChoice& choice) {
  if (!choice.chain.empty() || choice.table.value_or(Table::kube_ipvs) != Table::kube_ipvs)
    return {};
  auto sets = foreign_sets(reading);
  std::erase_if(sets, [&](const ForeignSet& set) {
    return choice.family.value_or(set.family) != set.family;
  });
  return sets;
}

std::string foreign_sets_text(const std::vector<ForeignSet>& sets) {
  std::string text;
  for (const auto& set : sets)
    text += fmt::format("{} {} set {}: NOT OURS\n", to_string(set.family),
                        to_string(Table::kube_ipvs), api::visible(set.name));
  return text;
}

std::string listing_text(const std::vector<ReviewedChain>& chains, const RuleReading& reading,
                         const RuleChoice& choice) {
  std::string text;
  for (const auto& chain : chains) {
    if (!text.empty()) text += "\n";
    text += paragraph(chain, reading);
  }
  const auto rest = foreign_sets_text(chosen_foreign_sets(reading, choice)) +
                    empty_tables(chains, reading, choice);
  if (!text.empty() && !rest.empty()) text += "\n";
  return text + rest;
}

// --- a document

void write_rule(api::DocumentWriter& out, const ReviewedChain& chain, const ReviewedRule& rule,
                const RuleReading& reading) {
  if (const auto count = told_count(chain, rule)) {
    out.member("bytes", count->bytes);
    out.member("packets", count->packets);
  }
  out.member("rule", rule_line(chain, rule));
  if (const auto names = ipset::looked_up_by(rule.rule); !names.empty())
    out.list("sets", names, [&](const std::string& name) {
      out.object([&] {
        const auto found = reading.sets.find(name);
        if (found != reading.sets.end()) out.member("elementCount", found->second);
        out.member("name", name);
      });
    });
  out.member("state", state_words(rule.state).name);
}

void write_chain(api::DocumentWriter& out, const ReviewedChain& chain, const RuleReading& reading) {
  out.member("chain", chain.name);
  if (chain.dormant) out.member("dormant", true);
  out.member("family", to_string(chain.table.family));
  if (chain.foreign) out.member("foreign", true);
  if (chain.base) out.member("hook", base_text(*chain.base));
  if (chain.policy) out.member("policy", policy_text(chain));
  out.list("rules", chain.rules, [&](const ReviewedRule& rule) {
    out.object([&] { write_rule(out, chain, rule, reading); });
  });
  out.member("table", to_string(chain.table.table));
  if (chain.wanted) out.member("wantedHook", base_text(*chain.wanted));
}

std::string chains_document(const std::vector<ReviewedChain>& chains, const RuleReading& reading,
                            const RuleChoice& choice, SetFormat format) {
  const auto foreign = chosen_foreign_sets(reading, choice);
  return document_text(format, [&](api::DocumentWriter& out) {
    out.object([&] {
      out.list("chains", chains, [&](const ReviewedChain& chain) {
        out.object([&] { write_chain(out, chain, reading); });
      });
      if (!foreign.empty())
        out.list("foreignSets", foreign, [&](const ForeignSet& set) {
          out.object([&] {
            out.member("elementCount", set.elements);
            out.member("family", to_string(set.family));
            out.member("name", set.name);
          });
        });
    });
  });
}

// --- as iptables-save

// libiptc lists built-in chains in the order of their hooks, then the others by name.
std::size_t save_order(const ReviewedChain& chain) {
  constexpr std::array<std::string_view, 5> kHookNames = {"PREROUTING", "INPUT", "FORWARD",
                                                          "OUTPUT", "POSTROUTING"};
  return static_cast<std::size_t>(std::find(kHookNames.begin(), kHookNames.end(), chain.name) -
                                  kHookNames.begin());
}

std::string table_save(const std::vector<const ReviewedChain*>& chains, bool counters) {
  auto text = fmt::format("*{}\n", to_string(chains.front()->table.table));
  for (const auto* chain : chains)
    if (!chain->policy) text += fmt::format(":{} - [0:0]\n", api::visible(chain->name));
  for (const auto* chain : chains)
    for (const auto& rule : chain->rules) {
      if (std::holds_alternative<ipset::ForeignTarget>(rule.rule.target)) text += "# ";
      const auto count = rule.count.value_or(ipset::RuleCount{});
      if (counters) text += fmt::format("[{}:{}] ", count.packets, count.bytes);
      text += api::visible(rule_line(*chain, rule)) + "\n";
    }
  return text + "COMMIT\n";
}

std::string save_text(const std::vector<ReviewedChain>& chains, bool counters) {
  std::map<plan::TableKey, std::vector<const ReviewedChain*>> tables;
  for (const auto& chain : chains)
    if (!is_nft(chain)) tables[chain.table].push_back(&chain);
  std::string text;
  for (auto& [key, list] : tables) {
    std::sort(list.begin(), list.end(), [](const auto* left, const auto* right) {
      return std::pair(save_order(*left), left->name) < std::pair(save_order(*right), right->name);
    });
    text += table_save(list, counters);
  }
  return text;
}

}  // namespace

std::string rules_text(const RuleReading& reading, const RuleStyle& style) {
  const auto chains = review_rules(reading, style.choice);
  switch (style.form) {
    case RuleForm::text:
      return listing_text(chains, reading, style.choice);
    case RuleForm::json:
      return chains_document(chains, reading, style.choice, SetFormat::json);
    case RuleForm::yaml:
      return chains_document(chains, reading, style.choice, SetFormat::yaml);
    case RuleForm::save:
      return save_text(chains, style.counters);
  }
  return "";
}

}  // namespace ipvsproxier::ctl

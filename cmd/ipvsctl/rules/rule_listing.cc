#include "cmd/ipvsctl/rules/rule_listing.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/set_listing.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using ipset::Table;

namespace {

struct StateWords {
  std::string_view name;  // in documents
  std::string_view note;  // in text
};

StateWords state_words(RuleState state) {
  switch (state) {
    case RuleState::ours:
      return {"ours", ""};
    case RuleState::missing:
      return {"missing", "MISSING"};
    case RuleState::missing_unsure:
      return {"missingUnsure", "MISSING, this one or another by the daemon's options"};
    case RuleState::misplaced:
      return {"misplaced", "NOT IN ITS PLACE, or twice"};
    case RuleState::foreign:
      return {"foreign", "NOT OURS"};
    case RuleState::not_judged:
      return {"notJudged", ""};
  }
  return {};
}

bool is_there(const ReviewedRule& rule) {
  return rule.state != RuleState::missing && rule.state != RuleState::missing_unsure;
}

std::string_view policy_text(ipset::Verdict policy) {
  return policy == ipset::Verdict::drop ? "DROP" : "ACCEPT";
}

std::string rule_line(const ReviewedChain& chain, const ReviewedRule& rule) {
  return fmt::format("-A {} {}", chain.name, to_string(rule.rule, chain.table.family));
}

std::vector<std::string> sets_of(const ipset::Rule& rule) {
  std::vector<std::string> names;
  if (std::holds_alternative<ipset::ForeignTarget>(rule.target)) return names;
  for (const auto& match : rule.matches)
    if (const auto* set = std::get_if<ipset::SetMatch>(&match)) names.push_back(set->set);
  return names;
}

// --- text

std::string title(const ReviewedChain& chain) {
  auto text = fmt::format("{} {} {}", to_string(chain.table.family), to_string(chain.table.table),
                          api::visible(chain.name));
  if (chain.policy) text += fmt::format(", policy {}", policy_text(*chain.policy));
  if (chain.missing)
    text += ": MISSING";
  else if (!chain.policy && !chain.reached)
    text += ": no rule leads here";
  return text + "\n";
}

std::string notes(const ReviewedRule& rule, const RuleReading& reading) {
  std::string text(state_words(rule.state).note);
  const auto add = [&](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  for (const auto& name : sets_of(rule.rule)) {
    const auto set = reading.sets.find(name);
    if (set == reading.sets.end())
      add(name + ": not there");
    else
      add(fmt::format("{}: {} element{}", name, set->second, set->second == 1 ? "" : "s"));
  }
  return text.empty() ? "" : "  # " + text;
}

std::string paragraph(const ReviewedChain& chain, const RuleReading& reading) {
  auto text = title(chain);
  for (const auto& rule : chain.rules) {
    if (is_there(rule))
      text += fmt::format("{:>10} {:>12}", rule.count.packets, rule.count.bytes);
    else
      text += fmt::format("{:>10} {:>12}", "-", "-");
    text += fmt::format("  {}{}\n", api::visible(rule_line(chain, rule)),
                        api::visible(notes(rule, reading)));
  }
  return text;
}

// Lines about tables in which our rules are expected and absent.
std::string empty_tables(const std::vector<ReviewedChain>& chains, const RuleChoice& choice) {
  std::string text;
  if (!choice.chain.empty()) return text;
  for (const auto family : netlink::kFamilies)
    for (const auto table : {Table::nat, Table::filter, Table::mangle}) {
      if (choice.family.value_or(family) != family) continue;
      if (choice.table ? *choice.table != table : table == Table::mangle) continue;
      const auto is_of = [&](const ReviewedChain& chain) {
        return chain.table == plan::TableKey{family, table};
      };
      if (std::none_of(chains.begin(), chains.end(), is_of))
        text += fmt::format("{} {}: nothing of ours\n", to_string(family), to_string(table));
    }
  return text;
}

std::string listing_text(const std::vector<ReviewedChain>& chains, const RuleReading& reading,
                         const RuleChoice& choice) {
  std::string text;
  for (const auto& chain : chains) {
    if (!text.empty()) text += "\n";
    text += paragraph(chain, reading);
  }
  const auto rest = empty_tables(chains, choice);
  if (!text.empty() && !rest.empty()) text += "\n";
  return text + rest;
}

// --- a document

void write_rule(api::DocumentWriter& out, const ReviewedChain& chain, const ReviewedRule& rule,
                const RuleReading& reading) {
  if (is_there(rule)) {
    out.member("bytes", rule.count.bytes);
    out.member("packets", rule.count.packets);
  }
  out.member("rule", rule_line(chain, rule));
  if (const auto names = sets_of(rule.rule); !names.empty())
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
  out.member("family", to_string(chain.table.family));
  out.member("missing", chain.missing);
  if (chain.policy)
    out.member("policy", policy_text(*chain.policy));
  else
    out.member("reached", chain.reached);
  out.list("rules", chain.rules, [&](const ReviewedRule& rule) {
    out.object([&] { write_rule(out, chain, rule, reading); });
  });
  out.member("table", to_string(chain.table.table));
}

std::string chains_document(const std::vector<ReviewedChain>& chains, const RuleReading& reading,
                            SetFormat format) {
  return document_text(format, [&](api::DocumentWriter& out) {
    out.object([&] {
      out.list("chains", chains, [&](const ReviewedChain& chain) {
        out.object([&] { write_chain(out, chain, reading); });
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
      if (!is_there(rule)) continue;
      if (std::holds_alternative<ipset::ForeignTarget>(rule.rule.target)) text += "# ";
      if (counters) text += fmt::format("[{}:{}] ", rule.count.packets, rule.count.bytes);
      text += api::visible(rule_line(*chain, rule)) + "\n";
    }
  return text + "COMMIT\n";
}

std::string save_text(const std::vector<ReviewedChain>& chains, bool counters) {
  std::map<plan::TableKey, std::vector<const ReviewedChain*>> tables;
  for (const auto& chain : chains)
    if (!chain.missing) tables[chain.table].push_back(&chain);
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
      return chains_document(chains, reading, SetFormat::json);
    case RuleForm::yaml:
      return chains_document(chains, reading, SetFormat::yaml);
    case RuleForm::save:
      return save_text(chains, style.counters);
  }
  return "";
}

}  // namespace ipvsproxier::ctl

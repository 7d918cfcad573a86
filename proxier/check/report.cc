#include "proxier/check/report.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/api/visible_text.h"
#include "proxier/check/advice.h"

namespace ipvsproxier::check {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostMessage = 1000;

std::string shown(std::string_view text) {
  return api::visible(api::head_of(text, kMostMessage));
}

std::string verdict_line(const Findings& findings) {
  const auto count = [&](Level level) {
    return std::ranges::count(findings, level, &Finding::level);
  };
  const auto against = count(Level::cannot);
  const auto limits = count(Level::limit);
  switch (worst(findings)) {
    case Level::cannot:
      return fmt::format("ipvs-proxier cannot work on this node: {} finding{} against it\n",
                         against, against == 1 ? "" : "s");
    case Level::limit:
      return fmt::format("ipvs-proxier works on this node, with {} limit{}\n", limits,
                         limits == 1 ? "" : "s");
    default:
      return "ipvs-proxier works on this node\n";
  }
}

std::string_view verdict_word(Level level) {
  if (level == Level::cannot) return "cannot";
  return level == Level::limit ? "limited" : "fine";
}

Json advice_json(const Finding& finding) {
  auto rows = Json::array();
  for (const auto& advice : finding.advice) {
    Json row = {{"system", advice.system}, {"do", shown(advice.text)}};
    if (!advice.source.empty()) row["source"] = advice.source;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string to_text(const Findings& findings, const NodeFacts& facts) {
  std::string text;
  std::set<Advice> told;
  for (const auto& finding : findings) {
    text += fmt::format("{:<7} {}: {}\n", to_string(finding.level), shown(finding.about),
                        shown(finding.message));
    for (const auto& advice : finding.advice) {
      if (!is_meant(advice, facts) || !told.insert(advice).second) continue;
      text += fmt::format("{:9}{}{}{}{}\n", "", advice.system == "any" ? "" : advice.system + ": ",
                          shown(advice.text), advice.source.empty() ? "" : "  ", advice.source);
    }
  }
  return text + verdict_line(findings);
}

std::string to_json(const Findings& findings, const NodeFacts& facts) {
  const auto level = worst(findings);
  Json document = {{"verdict", verdict_word(level)},
                   {"status", exit_status(level)},
                   {"kernel", shown(facts.release)},
                   {"system", shown(facts.system)},
                   {"findings", Json::array()}};
  for (const auto& finding : findings)
    document["findings"].push_back({{"level", to_string(finding.level)},
                                    {"about", shown(finding.about)},
                                    {"message", shown(finding.message)},
                                    {"advice", advice_json(finding)}});
  return api::to_json_text(document, 2) + "\n";
}

}  // namespace ipvsproxier::check

#include "proxier/check/report.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::check {

namespace {

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

void write_finding(api::DocumentWriter& out, const Finding& finding) {
  out.member("level", to_string(finding.level));
  out.member("about", shown(finding.about));
  out.member("message", shown(finding.message));
  out.member("remedy", shown(finding.remedy));
}

}  // namespace

std::string to_text(const Findings& findings) {
  std::string text;
  std::set<std::string> told;
  for (const auto& finding : findings) {
    text += fmt::format("{:<7} {}: {}\n", to_string(finding.level), shown(finding.about),
                        shown(finding.message));
    if (!finding.remedy.empty() && told.insert(finding.remedy).second)
      text += fmt::format("{:9}{}\n", "", shown(finding.remedy));
  }
  return text + verdict_line(findings);
}

std::string to_json(const Findings& findings, const NodeFacts& facts) {
  const auto level = worst(findings);
  api::JsonWriter out(api::JsonWriter::kIndented);
  out.object([&] {
    out.member("verdict", verdict_word(level));
    out.member("status", exit_status(level));
    out.member("kernel", shown(facts.release));
    out.list("findings", findings,
             [&](const Finding& finding) { out.object([&] { write_finding(out, finding); }); });
  });
  return out.take() + "\n";
}

}  // namespace ipvsproxier::check

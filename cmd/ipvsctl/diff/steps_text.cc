#include "cmd/ipvsctl/diff/steps_text.h"

#include <array>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

namespace {

constexpr std::array kAreas = {Area::host, Area::links, Area::sets, Area::rules,
                               Area::virtual_servers};

std::string name_of(const DryRun& result, const Step& step) {
  if (!step.service) return "";
  const auto it = result.names.find(*step.service);
  return it == result.names.end() ? "" : it->second;
}

const char* word_of(Change change) {
  switch (change) {
    case Change::add:
      return "add";
    case Change::remove:
      return "remove";
    case Change::change:
      return "change";
  }
  return "";
}

}  // namespace

std::string steps_text(const DryRun& result, std::string_view word, std::string_view none) {
  std::string text;
  std::string counts;
  for (const auto area : kAreas) {
    std::size_t count = 0;
    for (const auto& step : result.steps) {
      if (step.area != area) continue;
      if (count++ == 0) text += fmt::format("{}\n", to_string(area));
      const auto name = name_of(result, step);
      text += fmt::format("  {} {}{}{}\n", static_cast<char>(step.change), api::visible(step.what),
                          name.empty() ? "" : "  # ", api::visible(name));
    }
    if (count > 0)
      counts += fmt::format("{}{} in {}", counts.empty() ? "" : ", ", count, to_string(area));
  }
  const auto all = result.steps.size();
  text += all == 0 ? fmt::format("{}{}\n", none,
                                 result.wrong.empty() ? "" : ", except for what is wrong")
                   : fmt::format("{} {}{}: {}\n", all, word, all == 1 ? "" : "s", counts);
  for (const auto& line : result.wrong) text += fmt::format("wrong: {}\n", api::visible(line));
  for (const auto& note : result.notes)
    text += fmt::format("not looked at: {}\n", api::visible(note));
  return text;
}

std::string steps_json(const DryRun& result) {
  api::JsonWriter out(api::JsonWriter::kIndented);
  out.object([&] {
    out.member("complete", result.complete);
    out.list("steps", result.steps, [&](const Step& step) {
      out.object([&] {
        out.member("table", to_string(step.area));
        out.member("change", word_of(step.change));
        out.member("what", step.what);
        if (const auto name = name_of(result, step); !name.empty()) out.member("service", name);
      });
    });
    out.member("notLookedAt", result.notes);
    out.member("wrong", result.wrong);
  });
  return out.take() + "\n";
}

}  // namespace ipvsproxier::ctl

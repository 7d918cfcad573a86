#include "cmd/ipvsctl/commands.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cmd/ipvsctl/control_client.h"
#include "cmd/ipvsctl/diff/dry_run.h"
#include "cmd/ipvsctl/diff/plan_input.h"
#include "cmd/ipvsctl/diff/steps_text.h"
#include "cmd/log.h"
#include "proxier/api/fields.h"

namespace ipvsproxier::ctl {

namespace {

constexpr int kEqual = 0;
constexpr int kDifferent = 1;
constexpr int kUnknown = 2;

// Longer than a sync of a few changes.
constexpr std::chrono::milliseconds kSecondLook{500};

int give_up(const netlink::Error& error) {
  complain(to_string(error));
  return kUnknown;
}

int show(const DryRun& result, const std::string& text, Output& output) {
  if (!output.write(text)) return kUnknown;
  if (!result.complete) return kUnknown;
  return result.steps.empty() ? kEqual : kDifferent;
}

// What the daemon says of its own state: what it cannot do is no difference from its plan.
netlink::Result<std::vector<std::string>> wrong_of(ControlClient& daemon) {
  const auto status = daemon.ask("/v1/status");
  if (!status) return status.error();
  api::Problems problems;
  api::Report report{.origin = "", .problems = problems};
  const api::Fields fields(status->root(), report);
  const api::Fields sync(fields, "sync");
  std::vector<std::string> lines;
  for (const auto* list : {"wrong", "refused"})
    std::ranges::move(sync.texts(list).value_or(std::vector<std::string>()),
                      std::back_inserter(lines));
  return lines;
}

netlink::Result<DryRun> compare(ControlClient& daemon, spdlog::logger& logger) {
  const auto input = input_of_daemon(daemon);
  if (!input) return input.error();
  auto result = dry_run(*input, logger);
  if (!result) return result;
  auto wrong = wrong_of(daemon);
  if (!wrong) return wrong.error();
  result->wrong = *std::move(wrong);
  return result;
}

}  // namespace

int run_diff(const DiffOptions& options, Output& output) {
  // Only errors: the daemon has logged its warnings itself.
  auto logger = cmd::make_tool_logger(spdlog::level::err);
  ControlClient daemon(options.socket);
  auto result = compare(daemon, logger);
  if (!result) return give_up(result.error());
  if (!result->steps.empty()) {
    std::this_thread::sleep_for(kSecondLook);
    auto again = compare(daemon, logger);
    if (!again) return give_up(again.error());
    const std::set<Step> before(result->steps.begin(), result->steps.end());
    std::erase_if(again->steps, [&](const auto& step) { return !before.contains(step); });
    *result = *std::move(again);
  }
  return show(*result,
              options.json ? steps_json(*result)
                           : steps_text(*result, "difference", "the kernel is as it should be"),
              output);
}

int run_plan(const PlanOptions& options, Output& output) {
  auto logger = cmd::make_tool_logger(spdlog::level::warn);
  const auto input = input_of_flags(options.arguments, options.kubeconfig, logger);
  if (!input) return give_up(input.error());
  auto result = dry_run(*input, logger);
  if (!result) return give_up(result.error());
  return show(*result,
              options.json ? steps_json(*result)
                           : steps_text(*result, "change", "ipvs-proxier would change nothing"),
              output);
}

}  // namespace ipvsproxier::ctl

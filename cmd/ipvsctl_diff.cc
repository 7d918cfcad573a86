#include "cmd/ipvsctl_diff.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "cmd/control_client.h"
#include "cmd/log.h"
#include "cmd/rehearse.h"
#include "cmd/steps_text.h"
#include "cmd/wanted.h"
#include "netlink/kernel_module.h"

namespace ipvsproxier::cmd {

namespace {

using Json = nlohmann::json;

constexpr int kEqual = 0;
constexpr int kDifferent = 1;
constexpr int kUnknown = 2;

// Longer than a sync of a few changes.
constexpr std::chrono::milliseconds kSecondLook{500};

int give_up(const netlink::Error& error) {
  complain(to_string(error));
  return kUnknown;
}

int show(const Rehearsed& rehearsed, const std::string& text, Output& output) {
  if (!output.write(text)) return kUnknown;
  if (!rehearsed.complete) return kUnknown;
  return rehearsed.steps.empty() ? kEqual : kDifferent;
}

netlink::Result<Rehearsed> compare(ControlClient& daemon, spdlog::logger& logger) {
  const auto wanted = wanted_of_daemon(daemon);
  if (!wanted) return wanted.error();
  return rehearse(*wanted, logger);
}

}  // namespace

int run_diff(const DiffOptions& options, Output& output) {
  // Only errors: the daemon has logged its warnings itself.
  auto logger = make_tool_logger(spdlog::level::err);
  ControlClient daemon(options.socket);
  auto rehearsed = compare(daemon, logger);
  if (!rehearsed) return give_up(rehearsed.error());
  if (!rehearsed->steps.empty()) {
    std::this_thread::sleep_for(kSecondLook);
    auto again = compare(daemon, logger);
    if (!again) return give_up(again.error());
    const std::set<sync::Step> before(rehearsed->steps.begin(), rehearsed->steps.end());
    std::erase_if(again->steps, [&](const auto& step) { return !before.contains(step); });
    *rehearsed = *std::move(again);
  }
  return show(*rehearsed,
              options.json ? steps_json(*rehearsed)
                           : steps_text(*rehearsed, "difference", "the kernel is as it should be"),
              output);
}

int run_plan(const PlanOptions& options, Output& output) {
  auto logger = make_tool_logger(spdlog::level::warn);
  const auto wanted = wanted_of_flags(options.arguments, options.kubeconfig, logger);
  if (!wanted) return give_up(wanted.error());
  auto rehearsed = rehearse(*wanted, logger);
  if (!rehearsed) return give_up(rehearsed.error());
  if (netlink::module_present("nf_tables"))
    rehearsed->notes.emplace_back("tables of kube-proxy's nftables mode, which would go last");
  return show(*rehearsed,
              options.json ? steps_json(*rehearsed)
                           : steps_text(*rehearsed, "change", "ipvs-proxier would change nothing"),
              output);
}

}  // namespace ipvsproxier::cmd

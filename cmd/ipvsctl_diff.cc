#include "cmd/ipvsctl_diff.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "cmd/control_client.h"
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

// Longer than a sync of few changes.
constexpr std::chrono::milliseconds kSecondLook{500};

// What the daemon would log, on standard error.
spdlog::logger quiet_logger(spdlog::level::level_enum from) {
  spdlog::logger logger("ipvsctl", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>());
  logger.set_level(from);
  logger.set_pattern("ipvsctl: %v");
  return logger;
}

int give_up(const netlink::Error& error) {
  std::cerr << "ipvsctl: " << netlink::to_string(error) << '\n';
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

// "3.2 s ago"
std::string ago(double milliseconds) {
  return milliseconds < 1000 ? fmt::format("{:.0f} ms ago", milliseconds)
                             : fmt::format("{:.1f} s ago", milliseconds / 1000);
}

std::string text_or(const Json& json, const char* key, const char* otherwise) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

std::string sync_text(const Json& sync) {
  if (!sync.is_object()) return "sync             running now; ask again for more\n";
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<17}{}\n", name, value);
  };
  line("cluster", fmt::format("{} Services, {} EndpointSlices{}", sync.value("services", 0),
                              sync.value("endpointSlices", 0),
                              sync.value("listed", false) ? "" : "; the first lists are awaited"));
  line("kernel", fmt::format("{} virtual servers on {} addresses{}",
                             sync.value("virtualServices", 0), sync.value("addresses", 0),
                             sync.value("kernelRead", false) ? "" : "; not read yet"));
  line("settled",
       sync.value("settled", false) ? "yes: the kernel is what the cluster asks for" : "no");
  line("last change", fmt::format("{} (took {:.1f} ms)", text_or(sync, "lastSync", "none"),
                                  sync.value("lastSyncMilliseconds", 0.0)));
  line("last agreement", text_or(sync, "lastAgreement", "none: the whole kernel was never right"));
  line("draining", fmt::format("{} real servers", sync.value("draining", 0)));
  if (const auto waiting = sync.value("waiting", 0); waiting > 0)
    line("to be retried",
         fmt::format("{}, next in {} ms", waiting, sync.value("nextTryMilliseconds", 0)));
  for (const auto& wrong : sync.value("wrong", Json::array()))
    line("wrong", wrong.get<std::string>());
  return text;
}

std::string status_text(const Json& status) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<17}{}\n", name, value);
  };
  line("version", text_or(status, "version", "?"));
  line("node", text_or(status, "node", "?"));
  line("objects from", text_or(status, "source", "?"));
  line("ready", status.value("ready", false) ? "yes" : "no");
  line("alive", status.value("alive", false) ? "yes" : "no: a thread is stuck");
  const auto watches = status.value("watches", Json::object());
  for (const auto& [resource, watch] : watches.items())
    line(resource.c_str(), "heard " + ago(watch.value("heardMillisecondsAgo", 0.0)));
  return text + sync_text(status.value("sync", Json()));
}

}  // namespace

int run_diff(const DiffOptions& options, Output& output) {
  // It has told its warnings itself.
  auto logger = quiet_logger(spdlog::level::err);
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
  auto logger = quiet_logger(spdlog::level::warn);
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

int run_status(const StatusOptions& options, Output& output) {
  ControlClient daemon(options.socket);
  const auto text = daemon.get("/v1/status");
  if (!text) return give_up(text.error());
  const auto status = Json::parse(*text, nullptr, false);
  if (!status.is_object())
    return give_up({netlink::ErrorKind::malformed, 0,
                    options.socket + ": what answers there is no ipvs-proxier"});
  if (!output.write(options.json ? status.dump(2) + "\n" : status_text(status))) return kUnknown;
  const auto sync = status.value("sync", Json());
  const bool well = status.value("ready", false) && status.value("alive", false) &&
                    sync.is_object() && sync.value("settled", false);
  return well ? kEqual : kDifferent;
}

}  // namespace ipvsproxier::cmd

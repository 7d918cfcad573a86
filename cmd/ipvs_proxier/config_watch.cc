#include "cmd/ipvs_proxier/config_watch.h"

#include <chrono>
#include <utility>

#include "cmd/log.h"
#include "proxier/api/text_file.h"

namespace ipvsproxier::cmd {

namespace {

constexpr auto kTimer = "read configuration";
// Editors write twice, and a mounted ConfigMap changes several names: wait for more events.
constexpr std::chrono::milliseconds kSettle{50};

}  // namespace

ConfigVerdict judge_config(std::string_view text, const Options& running) {
  auto effective = config_of_file(text, running.config_file, running.overrides);
  const bool blank_name =
      !effective.config.hostname_override.empty() && !resolve_node_name(effective.config, "");
  if (blank_name)
    effective.problems.push_back(api::Problem{.origin = running.config_file,
                                              .field = "hostnameOverride",
                                              .message = "must not be blank"});
  if (api::has_error(effective.problems))
    return {.change = ConfigChange::invalid, .problems = std::move(effective.problems)};
  const bool same = effective.config == running.config;
  return {.change = same ? ConfigChange::none : ConfigChange::valid, .problems = {}};
}

ConfigWatch::ConfigWatch(const Options& options, loop::MainLoop& loop, spdlog::logger& logger,
                         std::function<void()> on_changed)
    : options_(options),
      loop_(loop),
      logger_(logger),
      on_changed_(std::move(on_changed)),
      watcher_(options.config_file) {
  if (options_.config_file.empty()) return;
  if (watcher_.fd() >= 0) loop_.watch(watcher_.fd(), [this] { note_events(); });
  // The file may have changed since the options were read.
  read();
  if (!watcher_.failure().empty()) logger_.warn("{}: {}", options_.config_file, watcher_.failure());
}

ConfigWatch::~ConfigWatch() {
  if (options_.config_file.empty()) return;
  loop_.cancel(kTimer);
  if (watcher_.fd() >= 0) loop_.unwatch(watcher_.fd());
}

void ConfigWatch::note_events() {
  if (!watcher_.take_events() || std::exchange(waiting_, true)) return;
  loop_.at(kTimer, loop::MainLoop::Clock::now() + kSettle, [this] { read(); });
}

void ConfigWatch::read() {
  waiting_ = false;
  if (watcher_.take_news().everything) watcher_.follow_path();
  // The end of the write is another event.
  if (watcher_.is_being_written(options_.config_file)) return;
  api::Problems unreadable;
  const auto text = api::read_text_file(options_.config_file, unreadable);
  if (!text) return tell(unreadable);
  const auto verdict = judge_config(*text, options_);
  if (verdict.change == ConfigChange::invalid) return tell(verdict.problems);
  if (!std::exchange(told_, {}).empty())
    logger_.info("{}: the configuration can be used again", options_.config_file);
  if (verdict.change == ConfigChange::none) return;
  logger_.info(
      "{}: the configuration has changed: ending, to be started with it; the kernel stays "
      "as it is",
      options_.config_file);
  if (on_changed_) std::exchange(on_changed_, nullptr)();
}

void ConfigWatch::tell(const api::Problems& problems) {
  if (problems == std::exchange(told_, problems)) return;
  log_problems(problems, logger_);
  logger_.warn("{}: going on with the configuration from before", options_.config_file);
}

}  // namespace ipvsproxier::cmd

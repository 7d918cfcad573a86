#pragma once

// Notices that the configuration file has changed. One thread, the main loop's.

#include <functional>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/loop/main_loop.h"
#include "proxier/watch/path_watcher.h"

namespace ipvsproxier::cmd {

enum class ConfigChange {
  none,     // it means what the running configuration means
  valid,    // it means something else
  invalid,  // it could not be started with
};

struct ConfigVerdict {
  ConfigChange change = ConfigChange::none;
  api::Problems problems;  // of an invalid one
};

// The file's text now, against the configuration with which this process runs. Pure.
ConfigVerdict judge_config(std::string_view text, const Options& running);

// Follows options.config_file, through links too, in whatever way it is replaced. Does nothing when
// there is none.
class ConfigWatch {
 public:
  // `on_changed` is called once, when the file holds another valid configuration. What is invalid
  // is logged, once for each way in which it is. All outlive this.
  ConfigWatch(const Options& options, loop::MainLoop& loop, spdlog::logger& logger,
              std::function<void()> on_changed);
  ConfigWatch(const ConfigWatch&) = delete;
  ConfigWatch& operator=(const ConfigWatch&) = delete;
  ~ConfigWatch();

 private:
  void note_events();
  void read();
  void tell(const api::Problems& problems);

  const Options& options_;
  loop::MainLoop& loop_;
  spdlog::logger& logger_;
  std::function<void()> on_changed_;
  watch::PathWatcher watcher_;
  bool waiting_ = false;  // for more events
  api::Problems told_;
};

}  // namespace ipvsproxier::cmd

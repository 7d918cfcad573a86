#pragma once

// Detects changes of the configuration file. Main thread only.

#include <functional>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/loop/main_loop.h"
#include "proxier/manifests/path_watcher.h"

namespace ipvsproxier::cmd {

enum class ConfigChange {
  none,     // same meaning as the running configuration
  valid,    // another valid configuration
  invalid,  // the process could not start with it
};

struct ConfigVerdict {
  ConfigChange change = ConfigChange::none;
  api::Problems problems;  // of an invalid configuration
};

// Compares the file's current text with the running configuration. Pure.
ConfigVerdict judge_config(std::string_view text, const Options& running);

// Follows options.config_file, also through links, however it is replaced. Does nothing without a
// file.
class ConfigWatch {
 public:
  // `on_changed` is called once, when the file holds another valid configuration. An invalid one is
  // logged, once for each set of problems. All arguments must outlive this.
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
  manifests::PathWatcher watcher_;
  bool waiting_ = false;  // waiting for further events
  api::Problems told_;
};

}  // namespace ipvsproxier::cmd

#pragma once

// ApiSource: follows the objects of an API server, selected as in kube-proxy: Services that are not
// headless and not of another proxy, EndpointSlices of Services that are not headless, this Node.
// Uses three reflectors (reflector.h describes their handling of failures), which never end. Main
// thread only.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/model/changes.h"
#include "proxier/watch/reflector.h"
#include "proxier/watch/removal_brake.h"
#include "proxier/watch/watch_log.h"

namespace ipvsproxier::watch {

// What is listed and watched, with the selectors.
std::array<Resource, 3> followed_resources(const std::string& node_name);

struct WatchStatus {
  std::string resource;  // "services", "endpointslices", "nodes"
  ReflectorStatus status;
};

class ApiSource {
 public:
  // The changes of one resource. Changes::complete is set to true in each from the time when every
  // list was complete once: an object that was never reported does not exist. The callback must not
  // destroy the source.
  using OnUpdate = std::function<void(model::Changes)>;

  // The arguments must outlive this; `random` returns numbers in [0, 1). `brake` applies to
  // Services and EndpointSlices.
  ApiSource(const std::string& node_name, access::Transport& transport, loop::Timers& timers,
            const std::function<double()>& random, RemovalBrake::Wait brake, spdlog::logger& log,
            OnUpdate on_update);
  ApiSource(const ApiSource&) = delete;
  ApiSource& operator=(const ApiSource&) = delete;
  ~ApiSource() = default;

  void start();
  // Lists everything again at `when`, or as soon as possible after it.
  void list_again(Reflector::Clock::time_point when);
  // For metrics; cheap.
  std::vector<WatchStatus> status() const;

 private:
  void tell(model::Changes changes);
  bool is_listed_again();

  OnUpdate on_update_;
  WatchLog watch_log_;
  std::vector<std::unique_ptr<Reflector>> reflectors_;
  std::optional<Reflector::Clock::time_point> list_due_;
};

}  // namespace ipvsproxier::watch

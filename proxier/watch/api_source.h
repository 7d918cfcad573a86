#pragma once

// ApiSource: the objects of an API server as they change, selected as kube-proxy selects them:
// Services of no other proxy and not headless, EndpointSlices of no headless Service, this Node.
// Three reflectors (reflector.h says what they do about failures); nothing here ever ends. The main
// thread's.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "proxier/watch/manifest_set.h"
#include "proxier/watch/reflector.h"
#include "proxier/watch/removal_brake.h"
#include "proxier/watch/watch_log.h"

namespace ipvsproxier::watch {

// As ManifestUpdate: what happened since the last one.
struct ApiUpdate {
  std::vector<api::Object> changed;
  std::vector<DeletedObject> deleted;
  // Why these cannot be read; nullopt: they can now, or are gone.
  std::map<api::ObjectKey, std::optional<std::string>> unreadable;
  // Every list was complete once: what was never told does not exist.
  bool complete = false;
  // What list_again() asked for is told by now.
  bool listed_again = false;
};

struct WatchStatus {
  std::string resource;  // "services", "endpointslices", "nodes"
  ReflectorStatus status;
};

class ApiSource {
 public:
  // Must not destroy the source.
  using OnUpdate = std::function<void(ApiUpdate)>;

  // What it uses outlives it; `random` answers numbers in [0, 1). `brake`: of Services and
  // EndpointSlices.
  ApiSource(const std::string& node_name, Transport& transport, loop::Timers& timers,
            const std::function<double()>& random, RemovalBrake::Wait brake, spdlog::logger& log,
            OnUpdate on_update);
  ApiSource(const ApiSource&) = delete;
  ApiSource& operator=(const ApiSource&) = delete;
  ~ApiSource() = default;

  void start();
  // Lists everything anew at `when`, or as soon after it as can be.
  void list_again(Reflector::Clock::time_point when);
  // For metrics; cheap.
  std::vector<WatchStatus> status() const;

 private:
  void tell(api::ObjectKind kind, ReflectorNews news);
  bool is_listed_again();

  OnUpdate on_update_;
  WatchLog watch_log_;
  std::vector<std::unique_ptr<Reflector>> reflectors_;
  std::optional<Reflector::Clock::time_point> list_due_;
};

}  // namespace ipvsproxier::watch

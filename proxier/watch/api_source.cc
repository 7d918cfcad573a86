#include "proxier/watch/api_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proxier/access/transport.h"

namespace ipvsproxier::watch {

std::array<Resource, 3> followed_resources(const std::string& node_name) {
  return {
      Resource{
          .name = "services",
          .kind = api::ObjectKind::service,
          .path = "/api/v1/services",
          .selector =
              "labelSelector=" + access::encode_query("!service.kubernetes.io/service-proxy-name") +
              "&fieldSelector=" + access::encode_query("spec.clusterIP!=None"),
      },
      Resource{
          .name = "endpointslices",
          .kind = api::ObjectKind::endpoint_slice,
          .path = "/apis/discovery.k8s.io/v1/endpointslices",
          .selector = "labelSelector=" + access::encode_query("!service.kubernetes.io/headless"),
      },
      Resource{
          .name = "nodes",
          .kind = api::ObjectKind::node,
          .path = "/api/v1/nodes",
          .selector = "fieldSelector=" + access::encode_query("metadata.name=" + node_name),
      },
  };
}

ApiSource::ApiSource(const std::string& node_name, access::Transport& transport,
                     loop::Timers& timers, const std::function<double()>& random,
                     RemovalBrake::Wait brake, spdlog::logger& log, OnUpdate on_update)
    : on_update_(std::move(on_update)), watch_log_(timers, log) {
  for (auto& resource : followed_resources(node_name)) {
    // Not for the Node: there is only one, and it stays in force when it is deleted.
    const RemovalBrake own(resource.kind == api::ObjectKind::node ? std::nullopt : brake);
    reflectors_.push_back(std::make_unique<Reflector>(
        std::move(resource), transport, timers, random, own, log, watch_log_,
        [this](model::Changes changes) { tell(std::move(changes)); }));
  }
}

void ApiSource::start() {
  for (const auto& reflector : reflectors_) reflector->start();
}

void ApiSource::list_again(Reflector::Clock::time_point when) {
  list_due_ = when;
  for (const auto& reflector : reflectors_) reflector->list_again(when);
}

bool ApiSource::is_listed_again() {
  const auto is_there = [this](const auto& reflector) {
    const auto& listed = reflector->status().listed;
    return listed && *listed >= *list_due_;
  };
  if (!list_due_ || !std::all_of(reflectors_.begin(), reflectors_.end(), is_there)) return false;
  list_due_.reset();
  return true;
}

void ApiSource::tell(model::Changes changes) {
  if (std::ranges::all_of(reflectors_, [](const auto& one) { return one->status().is_listed; }))
    changes.complete = true;
  changes.listed_again = is_listed_again();
  on_update_(std::move(changes));
}

std::vector<WatchStatus> ApiSource::status() const {
  std::vector<WatchStatus> all;
  for (const auto& reflector : reflectors_)
    all.push_back({.resource = reflector->resource().name, .status = reflector->status()});
  return all;
}

}  // namespace ipvsproxier::watch

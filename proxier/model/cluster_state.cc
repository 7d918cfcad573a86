#include "proxier/model/cluster_state.h"

#include <utility>

namespace ipvsproxier::model {

namespace {

struct Put {
  ClusterState& state;

  void operator()(api::Service&& service) const {
    auto name = service.name;
    state.services.insert_or_assign(std::move(name), std::move(service));
  }
  void operator()(api::EndpointSlice&& slice) const {
    if (slice.service.empty()) return;
    auto& slices = state.slices[{slice.name.ns, slice.service}];
    auto name = slice.name.name;
    slices.insert_or_assign(std::move(name), std::move(slice));
  }
  void operator()(api::Node&& node) const { state.node = std::move(node); }
};

}  // namespace

void ClusterState::put(api::Object object) {
  std::visit(Put{*this}, std::move(object));
}

}  // namespace ipvsproxier::model

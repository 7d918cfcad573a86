#pragma once

// Endpoints of service ports, joined from the EndpointSlices of a Service. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/containers/sorted_vector.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/api/objects.h"
#include "proxier/model/service_settings.h"

namespace ipvsproxier::model {

// Whether the hints of one kind (node or zone) name this node or zone, only others, or none.
enum class Hint : std::uint8_t { none, ours, others };

// An endpoint from the point of view of this node.
struct Endpoint {
  netlink::RealServerKey key;  // address and port
  bool local = false;          // on this node
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  Hint node_hint = Hint::none;
  Hint zone_hint = Hint::none;
  Weight weight;  // that annotations ask for
};

inline const std::string& name_of(const api::EndpointSlice& slice) {
  return slice.name.name;
}

// The EndpointSlices of one Service, in the order of their names.
using SlicesByName = netlink::SortedVector<api::EndpointSlice, &name_of>;

// The number of endpoints of the family in these slices, counted once for each port.
std::size_t count_endpoints(const SlicesByName& slices, netlink::Family family);

// Which of several endpoints with one address and port counts, in slices by their names.
enum class Duplicates : std::uint8_t {
  ready_wins,  // one that is ready; among equally ready ones as below
  later_wins,  // the later one unless it is terminating, as in kube-proxy
};

// The endpoints of each port of the Service in the family, ordered by address and port, without
// duplicates. `node_name` is this node's name, not empty. A slice that would bring the total above
// kMostOfOneService is left out. Weights are 1 without `settings`, those of the Service.
std::map<api::ServicePortName, std::vector<Endpoint>> endpoints_of(
    const api::NamespacedName& service, const SlicesByName& slices, netlink::Family family,
    std::string_view node_name, std::string_view zone, const ServiceSettings* settings = nullptr,
    Duplicates duplicates = Duplicates::ready_wins);

}  // namespace ipvsproxier::model

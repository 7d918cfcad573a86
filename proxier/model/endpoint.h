#pragma once

// Endpoints of service ports, joined from the EndpointSlices of a Service. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ipvs_types.h"
#include "proxier/api/objects.h"
#include "proxier/model/sorted_vector.h"

namespace ipvsproxier::model {

// Whom the hints of one kind are for.
enum class Hint : std::uint8_t { none, ours, others };

// As this node sees it.
struct Endpoint {
  netlink::RealServerKey key;  // address and port
  bool local = false;          // on this node
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  Hint node_hint = Hint::none;
  Hint zone_hint = Hint::none;
};

inline const std::string& name_of(const api::EndpointSlice& slice) {
  return slice.name.name;
}

// The EndpointSlices of one Service, in the order of their names.
using SlicesByName = SortedVector<api::EndpointSlice, &name_of>;

// What its slices have of the family, each once a port, whether or not it gets them.
std::size_t count_endpoints(const SlicesByName& slices, netlink::Family family);

// The endpoints of each port of the Service in the family, ordered by address and port, each once.
// Of duplicates the later one (slices in order of their names) wins, unless it is terminating.
// `node_name` is this node's, not empty. Slices with which there would be more than
// kMostOfOneService are left out.
std::map<api::ServicePortName, std::vector<Endpoint>> endpoints_of(
    const api::NamespacedName& service, const SlicesByName& slices, netlink::Family family,
    std::string_view node_name, std::string_view zone);

}  // namespace ipvsproxier::model

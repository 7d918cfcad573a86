#include "proxier/api/objects.h"

namespace ipvsproxier::api {

namespace {

struct Describe {
  std::string operator()(const Service& service) const {
    return "Service " + to_string(service.name);
  }
  std::string operator()(const EndpointSlice& slice) const {
    return "EndpointSlice " + to_string(slice.name);
  }
  std::string operator()(const Node& node) const { return "Node " + node.name; }
};

}  // namespace

std::string describe(const Object& object) {
  return std::visit(Describe{}, object);
}

}  // namespace ipvsproxier::api

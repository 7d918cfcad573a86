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

std::string_view to_string(ServiceType type) {
  switch (type) {
    case ServiceType::cluster_ip:
      return "ClusterIP";
    case ServiceType::node_port:
      return "NodePort";
    case ServiceType::load_balancer:
      return "LoadBalancer";
    case ServiceType::external_name:
      return "ExternalName";
  }
  return "";
}

std::string describe(const Object& object) {
  return std::visit(Describe{}, object);
}

}  // namespace ipvsproxier::api

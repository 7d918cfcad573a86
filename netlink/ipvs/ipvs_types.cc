#include "netlink/ipvs/ipvs_types.h"

#include <fmt/format.h>

namespace ipvsproxier::netlink {

std::string to_string(const VirtualServiceKey& key) {
  if (key.fwmark != 0)
    return fmt::format("fwmark {} ({})", key.fwmark, to_string(key.address.family()));
  return fmt::format("{}/{}", to_string(key.address, key.port), to_string(key.protocol));
}

std::string to_string(const RealServerKey& key) {
  return to_string(key.address, key.port);
}

const VirtualServiceKey& service_of(const IpvsOp& op) {
  struct Visitor {
    const VirtualServiceKey& operator()(const AddService& one) const { return one.service.key; }
    const VirtualServiceKey& operator()(const EditService& one) const { return one.service.key; }
    const VirtualServiceKey& operator()(const DeleteService& one) const { return one.key; }
    const VirtualServiceKey& operator()(const AddServer& one) const { return one.service; }
    const VirtualServiceKey& operator()(const EditServer& one) const { return one.service; }
    const VirtualServiceKey& operator()(const DeleteServer& one) const { return one.service; }
  };
  return std::visit(Visitor{}, op);
}

namespace {

struct Describe {
  std::string operator()(const AddService& op) const {
    return fmt::format("add virtual service {} {}", to_string(op.service.key),
                       op.service.scheduler.view());
  }
  std::string operator()(const EditService& op) const {
    return fmt::format("edit virtual service {} {}", to_string(op.service.key),
                       op.service.scheduler.view());
  }
  std::string operator()(const DeleteService& op) const {
    return fmt::format("delete virtual service {}", to_string(op.key));
  }
  std::string operator()(const AddServer& op) const {
    return fmt::format("add real server {} weight {} to virtual service {}",
                       to_string(op.server.key), op.server.weight, to_string(op.service));
  }
  std::string operator()(const EditServer& op) const {
    return fmt::format("edit real server {} weight {} of virtual service {}",
                       to_string(op.server.key), op.server.weight, to_string(op.service));
  }
  std::string operator()(const DeleteServer& op) const {
    return fmt::format("delete real server {} of virtual service {}", to_string(op.server),
                       to_string(op.service));
  }
};

}  // namespace

std::string to_string(const IpvsOp& op) {
  return std::visit(Describe{}, op);
}

}  // namespace ipvsproxier::netlink

#include "ipset/sets/set_types.h"

#include <fmt/format.h>

namespace ipvsproxier::ipset {
namespace {

struct Printer {
  std::string operator()(const IpElement& element) const { return element.ip.to_string(); }
  std::string operator()(const IpPortElement& element) const {
    return fmt::format("{},{}:{}", element.ip.to_string(), to_lower_string(element.protocol),
                       element.port);
  }
  std::string operator()(const IpPortIpElement& element) const {
    return fmt::format("{},{}:{},{}", element.ip.to_string(), to_lower_string(element.protocol),
                       element.port, element.ip2.to_string());
  }
  std::string operator()(const IpPortNetElement& element) const {
    return fmt::format("{},{}:{},{}", element.ip.to_string(), to_lower_string(element.protocol),
                       element.port, element.net.to_string());
  }
  std::string operator()(const PortElement& element) const { return std::to_string(element.port); }
};

}  // namespace

std::string_view to_string(SetKind kind) {
  switch (kind) {
    case SetKind::hash_ip:
      return "hash:ip";
    case SetKind::hash_ip_port:
      return "hash:ip,port";
    case SetKind::hash_ip_port_ip:
      return "hash:ip,port,ip";
    case SetKind::hash_ip_port_net:
      return "hash:ip,port,net";
    case SetKind::bitmap_port:
      return "bitmap:port";
  }
  return "unknown";
}

std::string_view module_of(SetKind kind) {
  switch (kind) {
    case SetKind::hash_ip:
      return "ip_set_hash_ip";
    case SetKind::hash_ip_port:
      return "ip_set_hash_ipport";
    case SetKind::hash_ip_port_ip:
      return "ip_set_hash_ipportip";
    case SetKind::hash_ip_port_net:
      return "ip_set_hash_ipportnet";
    case SetKind::bitmap_port:
      return "ip_set_bitmap_port";
  }
  return "ip_set";
}

std::string to_string(const Element& element) {
  return std::visit(Printer{}, element);
}

}  // namespace ipvsproxier::ipset

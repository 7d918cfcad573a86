#include "ipset/sets/set_types.h"

#include <algorithm>
#include <span>

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
  std::string operator()(const ServiceElement& element) const {
    return fmt::format("{},{}:{},{}{}", element.ip.to_string(), to_lower_string(element.protocol),
                       element.port, to_string(element.verdict),
                       element.restricted ? ",restricted" : "");
  }
  std::string operator()(const DestinationElement& element) const {
    return fmt::format("{},{}:{},{}", element.ip.to_string(), to_lower_string(element.protocol),
                       element.port, netlink::to_string(element.to, element.to_port));
  }
  std::string operator()(const RangesElement& element) const {
    auto text = fmt::format("{},{}:{}", element.ip.to_string(), to_lower_string(element.protocol),
                            element.port);
    const std::span shown(element.ranges.data(), std::min(element.ranges.size(), kMostShownRanges));
    for (const auto& range : shown) text += "," + range.to_string();
    if (const auto more = element.ranges.size() - shown.size(); more > 0)
      text += fmt::format(" and {} more ranges", more);
    return text;
  }
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
    case SetKind::nft_addresses:
      return "nft addresses";
    case SetKind::nft_hairpins:
      return "nft hairpins";
    case SetKind::nft_ports:
      return "nft ports";
    case SetKind::nft_services:
      return "nft services";
    case SetKind::nft_source_ranges:
      return "nft source ranges";
    case SetKind::nft_destinations:
      return "nft destinations";
  }
  return "unknown";
}

bool is_nft(SetKind kind) {
  return kind >= SetKind::nft_addresses;
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
    case SetKind::nft_addresses:
    case SetKind::nft_hairpins:
    case SetKind::nft_ports:
    case SetKind::nft_services:
    case SetKind::nft_source_ranges:
    case SetKind::nft_destinations:
      return "nf_tables";
  }
  return "ip_set";
}

std::string_view to_string(ServiceVerdict verdict) {
  switch (verdict) {
    case ServiceVerdict::keep:
      return "keep";
    case ServiceVerdict::mark:
      return "mark";
    case ServiceVerdict::cluster:
      return "cluster";
    case ServiceVerdict::local:
      return "local";
    case ServiceVerdict::absent:
      return "absent";
    case ServiceVerdict::foreign:
      return "foreign";
  }
  return "unknown";
}

std::vector<ServiceElement> all_of(const IpAddress& ip, Protocol protocol, std::uint16_t port) {
  std::vector<ServiceElement> all{{ip, protocol, port, ServiceVerdict::foreign}};
  for (const auto verdict : kServiceVerdicts)
    for (const bool restricted : {false, true})
      all.push_back({ip, protocol, port, verdict, restricted});
  return all;
}

Element first_of_key(const Element& element) {
  if (const auto* one = std::get_if<ServiceElement>(&element))
    return ServiceElement{one->ip, one->protocol, one->port, ServiceVerdict{}};
  if (const auto* one = std::get_if<DestinationElement>(&element))
    return DestinationElement{one->ip, one->protocol, one->port, IpAddress::any(one->ip.family()),
                              0};
  if (const auto* one = std::get_if<RangesElement>(&element))
    return RangesElement{one->ip, one->protocol, one->port, {}};
  return element;
}

std::vector<Element> one_by_one(const Element& element) {
  const auto* one = std::get_if<RangesElement>(&element);
  if (one == nullptr) return {element};
  std::vector<Element> each;
  for (const auto& range : one->ranges)
    each.emplace_back(IpPortNetElement{one->ip, one->protocol, one->port, range});
  return each;
}

std::size_t weight_of(const Element& element) {
  const auto* ranges = std::get_if<RangesElement>(&element);
  return ranges == nullptr ? 1 : ranges->ranges.size();
}

bool replaces(const Element& element, const Element& other) {
  return element != other && first_of_key(element) == first_of_key(other);
}

std::string to_string(const Element& element) {
  return std::visit(Printer{}, element);
}

}  // namespace ipvsproxier::ipset

#include "cmd/ipvsctl/names/cluster_names.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace ipvsproxier::ctl {

namespace {

using api::JsonValue;
using netlink::IpAddress;

std::optional<plan::Facet> parse_facet(std::string_view text) {
  using enum plan::Facet;
  for (const auto facet :
       {cluster_ip, external_ip, load_balancer, node_port, in_cluster, localhost})
    if (ipset::to_string(facet) == text) return facet;
  return std::nullopt;
}

std::optional<std::uint16_t> port_of(std::optional<std::int64_t> number) {
  if (!number || *number < 0 || *number > std::numeric_limits<std::uint16_t>::max())
    return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

// Reads the values of a row one after the other, each with its expected kind.
class Row {
 public:
  explicit Row(const JsonValue& row) : values_(row.elements()), at_(values_.begin()) {}

  std::string_view text() { return take(&JsonValue::text).value_or(std::string_view()); }
  bool boolean() { return take(&JsonValue::boolean).value_or(false); }
  IpAddress address() {
    const auto address = IpAddress::parse(text());
    good_ = good_ && address;
    return address.value_or(IpAddress());
  }
  std::uint16_t port() {
    const auto port = port_of(take(&JsonValue::integer));
    good_ = port.has_value();
    return port.value_or(0);
  }
  netlink::VirtualServiceKey key() {
    netlink::VirtualServiceKey key;
    key.address = address();
    key.port = port();
    const auto protocol = netlink::parse_protocol(text());
    good_ = good_ && protocol;
    key.protocol = protocol.value_or(netlink::Protocol::tcp);
    return key;
  }
  // Whether all values were present and of the expected kind.
  bool good() const { return good_; }

 private:
  template <typename T>
  std::optional<T> take(std::optional<T> (JsonValue::*as)() const) {
    if (!good_ || at_ == values_.end()) {
      good_ = false;
      return std::nullopt;
    }
    const auto value = *at_;
    ++at_;
    auto taken = (value.*as)();
    good_ = taken.has_value();
    return taken;
  }

  JsonValue::Elements values_;
  JsonValue::Elements::Iterator at_;
  bool good_ = true;
};

std::string_view text_of(const JsonValue& json, std::string_view key) {
  const auto value = json.find(key);
  return value ? value->text().value_or("") : std::string_view();
}

std::size_t endpoints_in(const JsonValue& slices) {
  std::size_t count = 0;
  for (const auto& slice : slices.elements())
    if (const auto endpoints = slice.find("endpoints")) count += endpoints->elements().count();
  return count;
}

}  // namespace

std::string to_string(const VirtualName& name) {
  auto text = std::string(name.ns) + "/" + std::string(name.service);
  if (!name.port.empty()) text.append(1, ':').append(name.port);
  return text;
}

std::string_view condition_text(const ServerName& name) {
  if (name.terminating) return name.serving ? "terminating" : "terminating, not serving";
  return name.ready ? "" : "not ready";
}

bool ClusterNames::take_foreign(const JsonValue& json) {
  Row row(json);
  const auto key = row.key();
  if (row.good()) foreign_.insert(key);
  return row.good();
}

bool ClusterNames::take_virtual(const JsonValue& json) {
  Row row(json);
  const auto key = row.key();
  const auto port = row.text();
  const auto facet = parse_facet(row.text());
  if (!row.good() || !facet) return false;
  virtuals_.insert_or_assign(
      key, Virtual{static_cast<std::uint32_t>(services_.size() - 1), texts_.intern(port), *facet});
  return true;
}

// Most slices have the same ports as the slice before.
std::optional<std::uint32_t> ClusterNames::take_ports(const JsonValue& json) {
  std::vector<std::uint16_t> ports;
  Row row(json);
  for (auto left = json.elements().count(); left > 0; --left) ports.push_back(row.port());
  if (!row.good()) return std::nullopt;
  if (ports_.empty() || ports_.back() != ports) ports_.push_back(std::move(ports));
  return static_cast<std::uint32_t>(ports_.size() - 1);
}

bool ClusterNames::take_slice(const JsonValue& json, std::vector<Endpoint>& endpoints) {
  const auto list = json.find("ports");
  const auto rows = json.find("endpoints");
  if (!list || !rows) return false;
  const auto ports = take_ports(*list);
  if (!ports) return false;
  for (const auto& one : rows->elements()) {
    Row row(one);
    Endpoint endpoint{.address = row.address(), .ports = *ports};
    endpoint.pod = texts_.add(row.text());
    endpoint.node = texts_.intern(row.text());
    endpoint.zone = texts_.intern(row.text());
    for (auto* is : {&endpoint.ready, &endpoint.serving, &endpoint.terminating})
      *is = row.boolean();
    if (!row.good()) return false;
    endpoints.push_back(endpoint);
  }
  return true;
}

// A Service continued from the page before is the last one of that page.
ClusterNames::Service& ClusterNames::service_of(const JsonValue& json) {
  const auto ns = text_of(json, "namespace");
  const auto name = text_of(json, "name");
  if (!services_.empty() && texts_.at(services_.back().ns) == ns &&
      texts_.at(services_.back().name) == name)
    return services_.back();
  return services_.emplace_back(
      Service{.ns = texts_.intern(ns), .name = texts_.add(name), .endpoints = {}});
}

bool ClusterNames::take_service(const JsonValue& json) {
  auto& service = service_of(json);
  if (const auto number = json.find("healthCheckNodePort")) {
    const auto port = port_of(number->integer());
    if (!port) return false;
    service.health_check_port = *port;
  }
  const auto virtuals = json.find("virtual");
  const auto slices = json.find("slices");
  if (!virtuals || !slices || texts_.at(service.name).empty()) return false;
  for (const auto& one : virtuals->elements())
    if (!take_virtual(one)) return false;
  std::vector<Endpoint> endpoints;
  endpoints.reserve(endpoints_in(*slices));
  for (const auto& slice : slices->elements())
    if (!take_slice(slice, endpoints)) return false;
  std::ranges::stable_sort(endpoints, {}, &Endpoint::address);
  auto& all = service.endpoints;
  const auto added = all.insert(all.end(), endpoints.begin(), endpoints.end());
  std::ranges::inplace_merge(all, added, {}, &Endpoint::address);
  return true;
}

netlink::Result<std::string> ClusterNames::take_page(std::string_view page) {
  const auto malformed = [] {
    return netlink::Error{netlink::ErrorKind::malformed, 0, "the names of the cluster"};
  };
  const auto document = api::JsonDocument::parse(page);
  if (!document) return malformed();
  const auto root = document->root();
  const auto services = root.find("services");
  const auto next = root.find("continue");
  if (!services || !next || !next->text()) return malformed();
  for (const auto& service : services->elements())
    if (!take_service(service)) return malformed();
  if (const auto foreign = root.find("foreign"))
    for (const auto& one : foreign->elements())
      if (!take_foreign(one)) return malformed();
  return std::string(*next->text());
}

std::span<const ClusterNames::Endpoint> ClusterNames::endpoints_at(const Service& service,
                                                                   const IpAddress& address) {
  const auto& all = service.endpoints;
  const auto first = std::ranges::lower_bound(all, address, {}, &Endpoint::address);
  const auto last = std::ranges::upper_bound(all, address, {}, &Endpoint::address);
  return {first, last};
}

api::NamespacedName ClusterNames::full_name(const Service& service) const {
  return {std::string(texts_.at(service.ns)), std::string(texts_.at(service.name))};
}

ServerName ClusterNames::name_of(const Endpoint& endpoint) const {
  return {.pod = texts_.at(endpoint.pod),
          .node = texts_.at(endpoint.node),
          .zone = texts_.at(endpoint.zone),
          .ready = endpoint.ready,
          .serving = endpoint.serving,
          .terminating = endpoint.terminating};
}

std::optional<VirtualName> ClusterNames::of(const netlink::VirtualServiceKey& service) const {
  const auto it = virtuals_.find(service);
  if (it == virtuals_.end()) return std::nullopt;
  const auto& owner = services_[it->second.service];
  return VirtualName{texts_.at(owner.ns), texts_.at(owner.name), texts_.at(it->second.port),
                     it->second.facet};
}

// As in the planner, of duplicates the later one counts unless it is terminating.
std::optional<ServerName> ClusterNames::of(const netlink::VirtualServiceKey& service,
                                           const netlink::RealServerKey& server) const {
  const auto it = virtuals_.find(service);
  if (it == virtuals_.end()) return std::nullopt;
  const Endpoint* found = nullptr;
  for (const auto& endpoint : endpoints_at(services_[it->second.service], server.address)) {
    const auto& ports = ports_[endpoint.ports];
    if (std::ranges::find(ports, server.port) == ports.end()) continue;
    if (found == nullptr || !endpoint.terminating) found = &endpoint;
  }
  return found != nullptr ? std::optional(name_of(*found)) : std::nullopt;
}

std::string ClusterNames::of_address(const IpAddress& address) const {
  std::string found;
  bool several = false;
  const auto note = [&](const Service& service, TextStore::Id name) {
    if (texts_.at(name).empty()) return;
    auto text = std::string(texts_.at(service.ns)).append(1, '/').append(texts_.at(name));
    several = several || (!found.empty() && found != text);
    found = std::move(text);
  };
  for (const auto& [key, one] : virtuals_)
    if (key.address == address && !ipset::is_of_node_port(one.facet))
      note(services_[one.service], services_[one.service].name);
  for (const auto& service : services_)
    for (const auto& endpoint : endpoints_at(service, address)) note(service, endpoint.pod);
  return several ? "" : found;
}

std::set<api::NamespacedName> ClusterNames::services_at(const IpAddress& address,
                                                        std::optional<std::uint16_t> port) const {
  std::set<api::NamespacedName> found;
  for (const auto& [key, one] : virtuals_)
    if (key.address == address && port.value_or(key.port) == key.port)
      found.insert(full_name(services_[one.service]));
  for (const auto& service : services_)
    for (const auto& endpoint : endpoints_at(service, address)) {
      const auto& ports = ports_[endpoint.ports];
      if (!port || std::ranges::find(ports, *port) != ports.end()) found.insert(full_name(service));
    }
  return found;
}

std::set<api::NamespacedName> ClusterNames::services_of_pod(const api::NamespacedName& pod) const {
  std::set<api::NamespacedName> found;
  for (const auto& service : services_)
    if (texts_.at(service.ns) == pod.ns)
      for (const auto& endpoint : service.endpoints)
        if (texts_.at(endpoint.pod) == pod.name) found.insert(full_name(service));
  return found;
}

}  // namespace ipvsproxier::ctl

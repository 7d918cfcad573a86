#include "proxier/inspect/cluster_names.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace ipvsproxier::inspect {

namespace {

using api::JsonValue;
using netlink::IpAddress;

std::optional<plan::Facet> parse_facet(std::string_view text) {
  using enum plan::Facet;
  for (const auto facet : {cluster_ip, external_ip, load_balancer, node_port})
    if (plan::to_string(facet) == text) return facet;
  return std::nullopt;
}

std::optional<std::uint16_t> port_of(std::optional<std::int64_t> number) {
  if (!number || *number < 0 || *number > std::numeric_limits<std::uint16_t>::max())
    return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

// Takes one value of a row after the other, of the kind that is expected.
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
  // All that was asked for was there.
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

bool ClusterNames::take_virtual(const JsonValue& json) {
  Row row(json);
  netlink::VirtualServiceKey key;
  key.address = row.address();
  key.port = row.port();
  const auto protocol = netlink::parse_protocol(row.text());
  const auto port = row.text();
  const auto facet = parse_facet(row.text());
  if (!row.good() || !protocol || !facet) return false;
  key.protocol = *protocol;
  virtuals_.insert_or_assign(
      key, Virtual{static_cast<std::uint32_t>(services_.size() - 1), port, *facet});
  return true;
}

bool ClusterNames::take_slice(const JsonValue& json, Service& service) {
  const auto ports = json.find("ports");
  const auto endpoints = json.find("endpoints");
  if (!ports || !endpoints) return false;
  auto& numbers = ports_.emplace_back();
  for (Row row(*ports); const auto& _ : ports->elements()) {
    static_cast<void>(_);
    numbers.push_back(row.port());
    if (!row.good()) return false;
  }
  for (const auto& one : endpoints->elements()) {
    Row row(one);
    Endpoint endpoint{.address = row.address(),
                      .ports = static_cast<std::uint32_t>(ports_.size() - 1),
                      .name = {}};
    auto& name = endpoint.name;
    for (auto* text : {&name.pod, &name.node, &name.zone}) *text = row.text();
    for (auto* is : {&name.ready, &name.serving, &name.terminating}) *is = row.boolean();
    if (!row.good()) return false;
    service.endpoints.push_back(endpoint);
  }
  return true;
}

bool ClusterNames::take_service(const JsonValue& json) {
  auto& service = services_.emplace_back();
  service.ns = text_of(json, "namespace");
  service.name = text_of(json, "name");
  if (const auto number = json.find("healthCheckNodePort")) {
    const auto port = port_of(number->integer());
    if (!port) return false;
    service.health_check_port = *port;
  }
  const auto virtuals = json.find("virtual");
  const auto slices = json.find("slices");
  if (!virtuals || !slices || service.name.empty()) return false;
  for (const auto& one : virtuals->elements())
    if (!take_virtual(one)) return false;
  for (const auto& slice : slices->elements())
    if (!take_slice(slice, service)) return false;
  std::ranges::stable_sort(service.endpoints, {}, &Endpoint::address);
  return true;
}

netlink::Result<std::string> ClusterNames::take_page(std::string_view page) {
  const auto malformed = [] {
    return netlink::Error{netlink::ErrorKind::malformed, 0, "the names of the cluster"};
  };
  auto document = api::JsonDocument::parse(page);
  if (!document) return malformed();
  pages_.push_back(*std::move(document));
  const auto root = pages_.back().root();
  const auto services = root.find("services");
  const auto next = root.find("continue");
  if (!services || !next || !next->text()) return malformed();
  for (const auto& service : services->elements())
    if (!take_service(service)) return malformed();
  return std::string(*next->text());
}

std::span<const ClusterNames::Endpoint> ClusterNames::endpoints_at(const Service& service,
                                                                   const IpAddress& address) {
  const auto& all = service.endpoints;
  const auto first = std::ranges::lower_bound(all, address, {}, &Endpoint::address);
  const auto last = std::ranges::upper_bound(all, address, {}, &Endpoint::address);
  return {first, last};
}

std::optional<VirtualName> ClusterNames::of(const netlink::VirtualServiceKey& service) const {
  const auto it = virtuals_.find(service);
  if (it == virtuals_.end()) return std::nullopt;
  const auto& owner = services_[it->second.service];
  return VirtualName{owner.ns, owner.name, it->second.port, it->second.facet};
}

// As the planner does, of duplicates it takes the later one unless that terminates.
std::optional<ServerName> ClusterNames::of(const netlink::VirtualServiceKey& service,
                                           const netlink::RealServerKey& server) const {
  const auto it = virtuals_.find(service);
  if (it == virtuals_.end()) return std::nullopt;
  std::optional<ServerName> found;
  for (const auto& endpoint : endpoints_at(services_[it->second.service], server.address)) {
    const auto& ports = ports_[endpoint.ports];
    if (std::ranges::find(ports, server.port) == ports.end()) continue;
    if (!found || !endpoint.name.terminating) found = endpoint.name;
  }
  return found;
}

std::string ClusterNames::of_address(const IpAddress& address) const {
  std::string found;
  bool several = false;
  const auto note = [&](const Service& service, std::string_view name) {
    if (name.empty()) return;
    auto text = std::string(service.ns) + "/" + std::string(name);
    several = several || (!found.empty() && found != text);
    found = std::move(text);
  };
  for (const auto& [key, one] : virtuals_)
    if (key.address == address) note(services_[one.service], services_[one.service].name);
  for (const auto& service : services_)
    for (const auto& endpoint : endpoints_at(service, address)) note(service, endpoint.name.pod);
  return several ? "" : found;
}

std::set<api::NamespacedName> ClusterNames::services_at(const IpAddress& address,
                                                        std::optional<std::uint16_t> port) const {
  std::set<api::NamespacedName> found;
  for (const auto& [key, one] : virtuals_)
    if (key.address == address && port.value_or(key.port) == key.port)
      found.insert(services_[one.service].full_name());
  for (const auto& service : services_)
    for (const auto& endpoint : endpoints_at(service, address)) {
      const auto& ports = ports_[endpoint.ports];
      if (!port || std::ranges::find(ports, *port) != ports.end())
        found.insert(service.full_name());
    }
  return found;
}

std::set<api::NamespacedName> ClusterNames::services_of_pod(const api::NamespacedName& pod) const {
  std::set<api::NamespacedName> found;
  for (const auto& service : services_)
    if (service.ns == pod.ns)
      for (const auto& endpoint : service.endpoints)
        if (endpoint.name.pod == pod.name) found.insert(service.full_name());
  return found;
}

}  // namespace ipvsproxier::inspect

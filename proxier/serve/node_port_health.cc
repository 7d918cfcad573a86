#include "proxier/serve/node_port_health.h"

#include <string>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"

namespace ipvsproxier::serve {

namespace {

using netlink::Family;

}  // namespace

HttpResponse service_health(const api::NamespacedName& service, std::uint32_t local_endpoints,
                            bool proxy_healthy) {
  // In kube-proxy's own layout.
  auto response = json_text(
      local_endpoints > 0 && proxy_healthy ? 200 : 503,
      fmt::format("{{\n\t\"service\": {{\n\t\t\"namespace\": {},\n\t\t\"name\": {}\n\t}},\n\t"
                  "\"localEndpoints\": {},\n\t\"serviceProxyHealthy\": {}\n}}",
                  api::json_quoted(service.ns), api::json_quoted(service.name), local_endpoints,
                  proxy_healthy));
  response.headers.emplace_back("X-Load-Balancing-Endpoint-Weight",
                                std::to_string(local_endpoints));
  return response;
}

NodePortHealth::~NodePortHealth() {
  for (const auto& [key, server] : servers_) close(*server);
}

std::vector<NodePortHealth::Failure> NodePortHealth::update(const ServiceHealthChanges& changes) {
  if (changes.addresses) move(*changes.addresses);
  if (changes.whole) {
    for (auto it = servers_.begin(); it != servers_.end();) {
      const auto next = std::next(it);
      if (!changes.services.contains(it->first.first)) remove(it);
      it = next;
    }
  }
  for (const auto& [name, health] : changes.services) {
    const auto now = health.value_or(ServiceHealth{});
    take({name, Family::ipv4}, now.ipv4_endpoints, now);
    take({name, Family::ipv6}, now.ipv6_endpoints, now);
  }
  // After all closing: a port may have passed from one Service to another.
  std::vector<Failure> failures;
  for (auto it = closed_.begin(); it != closed_.end();) {
    auto& server = *servers_.at(*it);
    if (auto error = open(*it, server)) {
      failures.push_back({it->first, server.port, *std::move(error)});
      ++it;
    } else {
      it = closed_.erase(it);
    }
  }
  return failures;
}

std::set<netlink::IpAddress> NodePortHealth::addresses_of(const Key& key,
                                                          const Server& server) const {
  const auto family = key.second;
  const auto& chosen = family == Family::ipv4 ? addresses_.ipv4 : addresses_.ipv6;
  if (!chosen) return {netlink::IpAddress::any(family)};
  auto all = *chosen;
  all.insert(server.load_balancers.begin(), server.load_balancers.end());
  return all;
}

// Closes sockets that are no longer wanted; update() opens the new ones.
void NodePortHealth::move(const NodePortHealthAddresses& addresses) {
  if (addresses == addresses_) return;
  addresses_ = addresses;
  for (const auto& [key, server] : servers_) close_unwanted(key, *server);
}

void NodePortHealth::close_unwanted(const Key& key, Server& server) {
  const auto wanted = addresses_of(key, server);
  std::erase_if(server.listeners, [&](const auto& listener) {
    const bool is_wanted = wanted.contains(listener.first);
    if (!is_wanted) server_.close(listener.second);
    return !is_wanted;
  });
  if (server.listeners.size() < wanted.size()) closed_.insert(key);
}

void NodePortHealth::take(const Key& key, std::optional<std::uint32_t> endpoints,
                          const ServiceHealth& health) {
  auto it = servers_.find(key);
  if (it != servers_.end() && (!endpoints || it->second->port != health.port)) {
    remove(it);
    it = servers_.end();
  }
  if (!endpoints) return;
  if (it == servers_.end()) {
    it = servers_.emplace(key, std::make_unique<Server>()).first;
    it->second->port = health.port;
    closed_.insert(key);
  }
  auto& server = *it->second;
  server.endpoints = *endpoints;
  std::set<netlink::IpAddress> load_balancers;
  for (const auto& address : health.load_balancers)
    if (address.family() == key.second) load_balancers.insert(address);
  if (load_balancers == server.load_balancers) return;
  server.load_balancers = std::move(load_balancers);
  close_unwanted(key, server);
}

void NodePortHealth::remove(Servers::iterator it) {
  close(*it->second);
  closed_.erase(it->first);
  servers_.erase(it);
}

std::optional<netlink::Error> NodePortHealth::open(const Key& key, Server& server) {
  const HttpHandler handler = [&server, &status = status_, name = key.first](const HttpRequest&) {
    return service_health(name, server.endpoints, status.families_healthy());
  };
  std::map<netlink::IpAddress, HttpServer::Id> opened;
  std::optional<netlink::Error> failed;
  for (const auto& address : addresses_of(key, server)) {
    if (server.listeners.contains(address)) continue;
    const bool is_balancer = server.load_balancers.contains(address);
    auto listening = server_.listen({.address = address,
                                     .port = server.port,
                                     .network = ListenNetwork::one_family,
                                     .may_be_absent = is_balancer},
                                    handler);
    if (listening) {
      opened.emplace(address, listening->id);
      continue;
    }
    failed = std::move(listening.error());
    // Whoever may write the status of a Service may name any address there.
    if (is_balancer) continue;
    for (const auto& [other, id] : opened) server_.close(id);
    return failed;
  }
  server.listeners.merge(opened);
  return failed;
}

void NodePortHealth::close(Server& server) {
  for (const auto& [address, id] : std::exchange(server.listeners, {})) server_.close(id);
}

}  // namespace ipvsproxier::serve

#pragma once

// Short spellings of cluster objects for tests.

#include <string>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "proxier/plan/node_info.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {

inline api::Endpoint endpoint(const std::string& address, const std::string& node) {
  api::Endpoint result;
  result.address = ip(address);
  result.node_name = node;
  return result;
}

// The node of the test vectors (test/support/vectors.h): n1 with eth0 10.0.0.1 and cni0 10.244.0.1.
inline plan::NodeInfo vector_node() {
  plan::NodeInfo node;
  node.name = "n1";
  node.zone = "z1";
  node.ips = {{netlink::Family::ipv4, ip("10.0.0.1")}, {netlink::Family::ipv6, ip("::1")}};
  node.addresses = {{"lo", ip("127.0.0.1"), 8},
                    {"eth0", ip("10.0.0.1"), 24},
                    {"cni0", ip("10.244.0.1"), 24},
                    {"eth0", ip("fe80::1"), 64}};
  return node;
}

// A TCP Service default/web with one unnamed port 80 on 10.96.0.9.
inline api::Service web_service() {
  api::Service service;
  service.name = {"default", "web"};
  service.cluster_ips = {ip("10.96.0.9")};
  service.ip_families = {netlink::Family::ipv4};
  service.ports = {{.name = "", .protocol = netlink::Protocol::tcp, .port = 80, .node_port = 0}};
  return service;
}

// The slice of a Service's only port, with these endpoints on `port`.
inline api::EndpointSlice slice_of(const api::Service& service, std::uint16_t port,
                                   const std::vector<api::Endpoint>& endpoints,
                                   const std::string& suffix = "1") {
  api::EndpointSlice slice;
  slice.name = {service.name.ns, service.name.name + "-" + suffix};
  slice.service = service.name.name;
  slice.family = endpoints.empty() ? netlink::Family::ipv4 : endpoints.front().address.family();
  slice.ports = {{service.ports.front().name, service.ports.front().protocol, port}};
  slice.endpoints = endpoints;
  return slice;
}

// E1 of the test vectors: local and ready; E2: remote and ready.
// Changes one slice of what a cluster has.
template <typename Edit>
void edit_slice(model::SlicesByName& slices, const std::string& name, Edit edit) {
  auto slice = *slices.find(name);
  edit(slice);
  slices.insert_or_assign(std::move(slice));
}

inline api::Endpoint e1() {
  return endpoint("10.244.0.3", "n1");
}
inline api::Endpoint e2() {
  return endpoint("10.244.1.4", "n2");
}

inline model::ClusterState cluster_of(std::vector<api::Object> objects) {
  model::ClusterState state;
  for (auto& object : objects) state.put(std::move(object));
  return state;
}

// The virtual service of web_service(), and e1() and e2() as its real servers.
inline const netlink::VirtualServiceKey kWeb{ip("10.96.0.9"), netlink::Protocol::tcp, 80};
inline const netlink::RealServerKey kE1{ip("10.244.0.3"), 8080};
inline const netlink::RealServerKey kE2{ip("10.244.1.4"), 8080};

// web_service() alone, with these endpoints.
inline model::ClusterState web_with(const std::vector<api::Endpoint>& endpoints,
                                    netlink::Protocol protocol = netlink::Protocol::tcp) {
  auto web = web_service();
  web.ports[0].protocol = protocol;
  return cluster_of({web, slice_of(web, 8080, endpoints)});
}

// What a source of objects would tell to get from one cluster to the other.
inline model::Changes changes_between(const model::ClusterState& before,
                                      const model::ClusterState& after) {
  model::Changes changes;
  for (const auto& [name, service] : before.services) changes.services[name] = std::nullopt;
  for (const auto& [name, service] : after.services) changes.services[name] = service;
  for (const auto& [name, slices] : before.slices)
    for (const auto& object : slices) changes.slices[object.name] = std::nullopt;
  for (const auto& [name, slices] : after.slices)
    for (const auto& object : slices) changes.slices[object.name] = object;
  if (before.node != after.node) changes.node = after.node;
  for (const auto& [key, why] : before.unreadable) changes.unreadable[key] = std::nullopt;
  for (const auto& [key, why] : after.unreadable) changes.unreadable[key] = why;
  changes.complete = after.complete;
  return changes;
}

}  // namespace ipvsproxier::test

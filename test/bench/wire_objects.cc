#include "test/bench/wire_objects.h"

#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proxier/api/object_json.h"
#include "test/bench/workload.h"
#include "test/support/api_server/objects.h"

namespace ipvsproxier::bench {
namespace {

using Json = nlohmann::json;

// As long as a UID is, and always the same for a name.
std::string uid_of(const std::string& name) {
  const auto hash = std::hash<std::string>{}(name);
  return fmt::format("{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}", hash >> 32U, hash & 0xffffU,
                     hash & 0xfffU, hash >> 52U, hash & 0xffffffffffffU);
}

}  // namespace

std::string wire_text(const api::Service& service) {
  auto object = Json::parse(api::to_json(service));
  auto& metadata = object["metadata"];
  const auto& name = service.name.name;
  metadata["labels"] = {{"app", name}, {"app.kubernetes.io/managed-by", "Helm"}};
  metadata["annotations"] = {{"meta.helm.sh/release-name", name},
                             {"meta.helm.sh/release-namespace", service.name.ns}};
  auto& spec = object["spec"];
  spec["selector"] = {{"app", name}};
  spec["ipFamilyPolicy"] = "SingleStack";
  for (auto& port : spec["ports"]) port["targetPort"] = "http";
  if (!object.contains("status")) object["status"]["loadBalancer"] = Json::object();
  return object.dump();
}

std::string wire_text(const api::EndpointSlice& slice, int revision) {
  auto object = Json::parse(api::to_json(slice));
  auto& metadata = object["metadata"];
  metadata["generateName"] = slice.service + "-";
  metadata["labels"]["app"] = slice.service;
  metadata["labels"]["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io";
  metadata["annotations"] = {
      {"endpoints.kubernetes.io/last-change-trigger-time", "2026-11-20T22:20:00Z"},
      {"example.com/revision", fmt::format("{}", revision)}};
  metadata["ownerReferences"] = {{{"apiVersion", "v1"},
                                  {"kind", "Service"},
                                  {"name", slice.service},
                                  {"uid", uid_of(slice.service)},
                                  {"controller", true},
                                  {"blockOwnerDeletion", true}}};
  for (auto& endpoint : object["endpoints"]) {
    if (!endpoint.contains("targetRef")) continue;
    auto& target = endpoint["targetRef"];
    target["namespace"] = slice.name.ns;
    target["uid"] = uid_of(target["name"]);
  }
  return object.dump();
}

std::string wire_node() {
  return test::make_node(kNode, "10.0.0.1");
}

}  // namespace ipvsproxier::bench

#include "test/support/api_server/dress.h"

#include <ctime>

#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string text_member(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

// Lists whose elements have keys in FieldsV1; others are owned as a whole.
OrderedJson element_key(const std::string& list, const OrderedJson& element) {
  OrderedJson key;
  if (!element.is_object()) return key;
  if (list == "ports" && element.contains("port")) {
    key["port"] = element["port"];
    key["protocol"] = element.value("protocol", "TCP");
  } else if (list == "addresses" && element.contains("type")) {
    key["type"] = element["type"];
  }
  return key;
}

OrderedJson field_set(const std::string& name, const OrderedJson& value, int depth) {
  static const std::set<std::string> kServerSets{"clusterIP", "clusterIPs", "ipFamilies",
                                                 "ipFamilyPolicy"};
  OrderedJson fields = OrderedJson::object();
  if (value.is_object()) {
    if (depth > 0) fields["."] = OrderedJson::object();
    for (const auto& [key, member] : value.items())
      if (!kServerSets.contains(key)) fields["f:" + key] = field_set(key, member, depth + 1);
  } else if (value.is_array() && depth > 0) {
    for (const auto& element : value) {
      const auto key = element_key(name, element);
      if (key.is_null()) return fields;
      fields["."] = OrderedJson::object();
      fields["k:" + key.dump()] = field_set({}, element, 1);
    }
  }
  return fields;
}

OrderedJson manager(const ResourceFacts& facts, const std::string& time, OrderedJson fields) {
  return {{"manager", "unknown"}, {"operation", "Update"},    {"apiVersion", facts.api_version},
          {"time", time},         {"fieldsType", "FieldsV1"}, {"fieldsV1", std::move(fields)}};
}

OrderedJson managed_fields(const OrderedJson& object, const ResourceFacts& facts,
                           const std::string& time) {
  OrderedJson fields = OrderedJson::object();
  OrderedJson status;
  for (const auto& [key, member] : object.items()) {
    if (key == "status") {
      if (member != OrderedJson{{"loadBalancer", OrderedJson::object()}})
        status["f:status"] = field_set(key, member, 0);
    } else if (key == "metadata") {
      for (const char* map : {"annotations", "labels"})
        if (const auto found = member.find(map); found != member.end())
          fields["f:metadata"][std::string("f:") + map] = field_set(map, *found, 1);
    } else if (key != "kind" && key != "apiVersion") {
      fields["f:" + key] = field_set(key, member, 0);
    }
  }
  auto entries = OrderedJson::array({manager(facts, time, std::move(fields))});
  if (!status.is_null()) {
    entries.push_back(manager(facts, time, std::move(status)));
    entries.back()["subresource"] = "status";
  }
  return entries;
}

Attributes attributes_of(const OrderedJson& metadata, const OrderedJson& object) {
  Attributes attributes;
  if (const auto labels = metadata.find("labels"); labels != metadata.end() && labels->is_object())
    for (const auto& [key, value] : labels->items())
      if (value.is_string()) attributes.labels[key] = value.get<std::string>();
  attributes.fields = {{"metadata.name", text_member(metadata, "name")},
                       {"metadata.namespace", text_member(metadata, "namespace")}};
  if (const auto spec = object.find("spec"); spec != object.end() && spec->is_object()) {
    attributes.fields["spec.clusterIP"] = text_member(*spec, "clusterIP");
    attributes.fields["spec.type"] = text_member(*spec, "type");
  }
  return attributes;
}

// Metadata in the order in which Go prints it.
OrderedJson metadata_of(const OrderedJson& given, const StoredObject& stored, bool generations) {
  OrderedJson metadata;
  metadata["name"] = stored.name;
  if (!stored.name_space.empty()) metadata["namespace"] = stored.name_space;
  metadata["uid"] = stored.uid;
  metadata["resourceVersion"] = std::to_string(stored.version);
  if (generations) metadata["generation"] = stored.generation;
  metadata["creationTimestamp"] = stored.created;
  for (const char* name : {"deletionTimestamp", "deletionGracePeriodSeconds", "labels",
                           "annotations", "ownerReferences", "finalizers"})
    if (const auto found = given.find(name); found != given.end() && !found->empty())
      metadata[name] = *found;
  return metadata;
}

}  // namespace

Result<StoredObject> dress(const OrderedJson& object, Resource resource, const StoredObject* before,
                           std::uint64_t version, std::uint64_t uid_number, bool changed) {
  const auto& facts = facts_of(resource);
  const auto given = object.find("metadata");
  if (given == object.end() || !given->is_object() || text_member(*given, "name").empty())
    return Error{ErrorKind::malformed, 0, "an object without metadata.name"};

  StoredObject stored{.name_space = facts.namespaced ? text_member(*given, "namespace") : "",
                      .name = text_member(*given, "name"),
                      .text = {},
                      .attributes = {},
                      .version = version,
                      .uid = text_member(*given, "uid"),
                      .created = text_member(*given, "creationTimestamp"),
                      .generation = 1};
  if (facts.namespaced && stored.name_space.empty()) stored.name_space = "default";
  if (before != nullptr) stored.generation = before->generation + (changed ? 1 : 0);
  if (stored.uid.empty())
    stored.uid = before != nullptr
                     ? before->uid
                     : fmt::format("{:08x}-1f5a-4c7e-9b3d-{:012x}",
                                   uid_number * 2654435761U % 0xffffffffU, uid_number);
  if (stored.created.empty()) stored.created = before != nullptr ? before->created : now_utc();

  auto body = object;
  if (resource == Resource::services && !body.contains("status"))
    body["status"] = {{"loadBalancer", OrderedJson::object()}};
  OrderedJson out;
  out["metadata"] = metadata_of(*given, stored, resource == Resource::endpoint_slices);
  const auto managed = given->find("managedFields");
  out["metadata"]["managedFields"] =
      managed != given->end() ? *managed : managed_fields(body, facts, stored.created);
  for (const auto& [key, member] : body.items())
    if (key != "kind" && key != "apiVersion" && key != "metadata") out[key] = member;
  stored.attributes = attributes_of(out["metadata"], out);
  stored.text = out.dump();
  return stored;
}

}  // namespace ipvsproxier::test

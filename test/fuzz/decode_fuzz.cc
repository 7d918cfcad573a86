// Whatever the wire brings, decoding it ends with objects that proxying may trust, or with a
// reason. What of it is JSON is the same JSON to nlohmann-json.
//
// The first byte of an input is the kind that is expected.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "proxier/api/broken_json.h"
#include "proxier/api/decode.h"
#include "proxier/api/json_builder.h"
#include "proxier/api/json_value.h"
#include "proxier/api/wire.h"

namespace ipvsproxier::api {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

struct Check {
  ObjectKind kind;
  const NamespacedName& name;

  void operator()(const Service& service) const {
    require(kind == ObjectKind::service && service.name == name && service.origin.empty());
    require(service.headless ? service.cluster_ips.empty() : service.cluster_ips.size() <= 2);
    require(service.cluster_ips.empty() || !service.ports.empty());
    for (const auto& port : service.ports) require(port.port != 0);
  }
  void operator()(const EndpointSlice& slice) const {
    require(kind == ObjectKind::endpoint_slice && slice.name == name);
    for (const auto& port : slice.ports) require(port.port != 0);
    for (const auto& endpoint : slice.endpoints) require(endpoint.address.family() == slice.family);
  }
  void operator()(const Node& node) const {
    require(kind == ObjectKind::node && node.name == name.name && name.ns.empty());
  }
};

void check_object(const std::optional<Object>& object, ObjectKind kind, const NamespacedName& name,
                  const Problems& problems) {
  require(object.has_value() || !problems.empty());
  for (const auto& problem : problems) require(problem.origin.empty() && !problem.message.empty());
  if (object) std::visit(Check{kind, name}, *object);
}

void check_event(std::string_view text, ObjectKind kind) {
  const auto event = decode_watch_event(text, kind);
  if (!event) return require(!event.error().where.empty());
  if (event->type == EventType::error) return require(!event->object && event->name.name.empty());
  if (event->type == EventType::bookmark) return require(!event->resource_version.empty());
  check_object(event->object, kind, event->name, event->problems);
}

void check_json(std::string_view text) {
  const auto json = JsonDocument::parse(text);
  if (!json) return;
  const auto tree = nlohmann::json::parse(text, nullptr, false);
  require(!tree.is_discarded());
  // Zero with a sign and numbers like 1e5 are the same number in both.
  const auto is_tree = [&tree](const JsonDocument& document) {
    return nlohmann::json::parse(to_json_text(document.root()), nullptr, false) == tree;
  };
  require(is_tree(*json));
  bool twice = has_duplicate_keys(json->root());
  const auto again = JsonDocument::parse(to_json_text(tree));
  require(again.has_value() && !has_duplicate_keys(again->root()));
  require(twice || is_tree(*again));
}

// What was sound is sound when it is mended, and mended once and for all.
void check_mended(std::string_view text) {
  const auto mended = mend_json(text);
  require(mend_json(mended) == mended);
  require(!JsonDocument::parse(text) || JsonDocument::parse(mended));
  for (const auto& outline : {outline_of_event(text), outline_of_object(text)})
    for (const auto* part : {&outline.event_type, &outline.name, &outline.ns})
      require(part->find('\\') == std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::api

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipvsproxier::api;
  if (size == 0) return 0;
  constexpr std::array kKinds = {ObjectKind::service, ObjectKind::endpoint_slice, ObjectKind::node};
  const auto kind = kKinds.at(data[0] % kKinds.size());
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_json(text);
  check_event(text, kind);
  // The same inside what an event has to say first, so that objects are reached soon.
  check_event("{\"type\":\"MODIFIED\",\"object\":" + std::string(text) + "}", kind);
  const auto item = decode_list_item(text, kind);
  check_object(item.object, kind, item.name, item.problems);
  check_mended(text);
  if (const auto envelope = decode_list_envelope(text, kind))
    require(!envelope->resource_version.empty());
  const auto status = decode_status(text);
  require(status.code >= 0 && status.retry_after_seconds.value_or(0) >= 0);
  return 0;
}

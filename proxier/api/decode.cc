#include "proxier/api/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/annotations.h"
#include "proxier/api/decode_parts.h"
#include "proxier/api/timestamp.h"

namespace ipvsproxier::api {

namespace {

struct KindRow {
  ObjectKind kind;
  std::string_view name;
  std::string_view group_prefix;  // beginning of apiVersion
  std::string_view api_version;
};

constexpr std::array<KindRow, 3> kKinds = {{
    {ObjectKind::service, "Service", "", "v1"},
    {ObjectKind::endpoint_slice, "EndpointSlice", "discovery.k8s.io/", "discovery.k8s.io/v1"},
    {ObjectKind::node, "Node", "", "v1"},
}};

const KindRow& row_of(ObjectKind kind) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [kind](const KindRow& row) { return row.kind == kind; });
}

// The kind or apiVersion before the object is known to be valid: "" unless the member is text; for
// an item of a list the list's.
std::string_view identity(const JsonValue& object, std::string_view key, std::string_view implied) {
  const auto member = object.find(key);
  if (!member || member->is_null()) return implied;
  return member->text().value_or("");
}

constexpr std::array<std::string_view, 4> kLabels = {kServiceNameLabel, kProxyNameLabel,
                                                     kHeadlessLabel, kZoneLabel};

// An annotation may hold any text; a bad one must not cost the slice.
TriggerTime trigger_time(const Fields& metadata) {
  const auto annotations = metadata.find("annotations");
  const auto annotation = annotations && annotations->is_object()
                              ? annotations->find(kTriggerTimeAnnotation)
                              : std::nullopt;
  const auto text = annotation ? annotation->text() : std::nullopt;
  return {text ? parse_rfc3339_time(*text) : std::nullopt};
}

// The member as text, if it is shorter than most of what people write by far. Anything else must
// not cost the object.
std::optional<std::string> short_text(const Fields& annotations, std::string_view key,
                                      const JsonValue& value) {
  if (value.is_null()) return std::nullopt;
  const auto text = value.text();
  if (text && text->size() <= kLongestAnnotation) return std::string(*text);
  annotations.note(Severity::warning, key,
                   text ? fmt::format("is longer than {} bytes; it is ignored", kLongestAnnotation)
                        : fmt::format("must be text, not {}; it is ignored", show(value)));
  return std::nullopt;
}

// The member "annotations" if it is an object; the API admits nothing else.
const JsonValue* object_or_null(const std::optional<JsonValue>& annotations) {
  return annotations && annotations->is_object() ? &*annotations : nullptr;
}

std::vector<Annotation> service_annotations(const Fields& metadata) {
  const auto member = metadata.find("annotations");
  if (object_or_null(member) == nullptr) return {};
  const Fields annotations(metadata, "annotations");
  std::map<std::string, std::string> found;  // of equal keys the last one counts, as in the API
  annotations.each_member([&](std::string_view key, const JsonValue& value) {
    if (!is_ours(key) || found.size() == kMostAnnotations) return;
    if (auto text = short_text(annotations, key, value))
      found.insert_or_assign(std::string(key), *std::move(text));
  });
  std::vector<Annotation> result;
  for (auto& [key, value] : found) result.push_back({key, std::move(value)});
  return result;
}

std::optional<std::uint32_t> slice_weight(const Fields& metadata) {
  const auto member = metadata.find("annotations");
  const auto* object = object_or_null(member);
  const auto value = object == nullptr ? std::nullopt : object->find(kWeightAnnotation);
  if (!value) return std::nullopt;
  const Fields annotations(metadata, "annotations");
  const auto text = short_text(annotations, kWeightAnnotation, *value);
  if (!text) return std::nullopt;
  const auto weight = parse_weight(*text);
  if (!weight)
    annotations.note(Severity::warning, kWeightAnnotation,
                     fmt::format("must be a number from 0 to {}, not {}; it is ignored",
                                 kLargestWeight, show(*text)));
  return weight;
}

Metadata decode_metadata(const Fields& root, ObjectKind kind) {
  const Fields fields(root, "metadata");
  Metadata metadata;
  metadata.name.name = fields.text("name");
  const auto given_name = fields.find("name");
  if (!given_name || is_empty_text(*given_name)) fields.refuse("name", "is missing");
  if (kind != ObjectKind::node) metadata.name.ns = fields.text("namespace", "default");
  if (metadata.name.ns.empty() && kind != ObjectKind::node) metadata.name.ns = "default";
  metadata.deleting = fields.find("deletionTimestamp").has_value();
  if (fields.find("creationTimestamp")) {
    const auto text = fields.text("creationTimestamp");
    metadata.creation_time = parse_rfc3339(text);
    if (!metadata.creation_time)
      fields.note(Severity::warning, "creationTimestamp",
                  fmt::format("{} is no RFC 3339 time; treated as missing", show(text)));
  }
  const Fields labels(fields, "labels");
  for (const auto label : kLabels) {
    // An API server reads a null label as an empty one; selection only asks whether it exists.
    if (labels.has(label)) metadata.labels.emplace(label, labels.text(label));
  }
  if (kind == ObjectKind::service) metadata.annotations = service_annotations(fields);
  if (kind == ObjectKind::endpoint_slice) {
    metadata.trigger = trigger_time(fields);
    metadata.weight = slice_weight(fields);
  }
  return metadata;
}

std::optional<Object> decode_as(ObjectKind kind, const Fields& root, Metadata metadata) {
  switch (kind) {
    case ObjectKind::service:
      return decode_service(root, std::move(metadata));
    case ObjectKind::endpoint_slice: {
      auto slice = decode_endpoint_slice(root, std::move(metadata));
      if (!slice) return std::nullopt;
      return *std::move(slice);
    }
    case ObjectKind::node:
      return decode_node(root, std::move(metadata));
  }
  return std::nullopt;
}

std::vector<IpPrefix> pod_cidrs(const Fields& spec) {
  std::vector<IpPrefix> prefixes;
  spec.each("podCIDRs", [&](std::size_t index, const JsonValue& element) {
    const auto text = text_entry(spec, "podCIDRs", index, element, "this entry is left out");
    if (!text) return;
    if (const auto prefix = IpPrefix::parse(*text)) return prefixes.push_back(*prefix);
    spec.note(Severity::error, "podCIDRs",
              fmt::format("{} is no CIDR; this entry is left out", show(*text)), index);
  });
  const auto list = spec.find("podCIDRs");
  if (list && !list->elements().empty()) return prefixes;
  const auto single = spec.text("podCIDR");
  if (single.empty()) return prefixes;
  if (const auto prefix = IpPrefix::parse(single)) return {*prefix};
  spec.note(Severity::error, "podCIDR", fmt::format("{} is no CIDR; it is left out", show(single)));
  return prefixes;
}

bool has_taint(const Fields& spec, std::string_view key) {
  bool found = false;
  spec.each_object("taints",
                   [&](const Fields& taint) { found = found || taint.text("key") == key; });
  return found;
}

}  // namespace

std::string_view to_string(ObjectKind kind) {
  return row_of(kind).name;
}

std::string_view api_version_of(ObjectKind kind) {
  return row_of(kind).api_version;
}

std::string_view kind_text(const JsonValue& object, std::optional<ObjectKind> implied) {
  return identity(object, "kind", implied ? row_of(*implied).name : "");
}

std::string_view version_text(const JsonValue& object, std::optional<ObjectKind> implied) {
  return identity(object, "apiVersion", implied ? row_of(*implied).api_version : "");
}

std::optional<ObjectKind> find_kind(const JsonValue& object, std::optional<ObjectKind> implied) {
  const auto name = kind_text(object, implied);
  const auto version = version_text(object, implied);
  for (const auto& row : kKinds) {
    if (row.name != name) continue;
    // A version without a group is a mistake in one of our kinds; decode_object() reports it.
    const auto slash = version.find('/');
    if (slash == std::string_view::npos || version.substr(0, slash + 1) == row.group_prefix)
      return row.kind;
  }
  return std::nullopt;
}

NamespacedName name_of(const JsonValue& object, ObjectKind kind) {
  const auto metadata = object.find("metadata");
  if (!metadata) return {};
  NamespacedName name;
  name.name = identity(*metadata, "name", "");
  if (kind != ObjectKind::node) name.ns = identity(*metadata, "namespace", "");
  if (name.ns.empty() && kind != ObjectKind::node) name.ns = "default";
  return name;
}

std::string describe_json(const JsonValue& object, std::optional<ObjectKind> implied) {
  const auto kind = kind_text(object, implied);
  const bool is_node = kind == row_of(ObjectKind::node).name;
  const auto name = name_of(object, is_node ? ObjectKind::node : ObjectKind::service);
  if (name.name.empty()) return std::string(kind);
  return fmt::format("{} {}", kind, is_node ? name.name : to_string(name));
}

std::optional<std::uint16_t> port_number(const Fields& fields, std::string_view key,
                                         std::int64_t smallest) {
  const auto number = fields.integer(key, smallest, 65535);
  if (!number) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

Protocol protocol_of(const Fields& fields) {
  const auto text = fields.text("protocol");
  if (text.empty()) return Protocol::tcp;
  const auto protocol = netlink::parse_protocol(text);
  if (!protocol)
    fields.refuse("protocol", fmt::format("must be TCP, UDP or SCTP, not {}", show(text)));
  return protocol.value_or(Protocol::tcp);
}

std::optional<std::string_view> text_entry(const Fields& fields, std::string_view key,
                                           std::size_t index, const JsonValue& element,
                                           std::string_view consequence) {
  const auto text = element.text();
  if (text) return text;
  fields.note(Severity::error, key,
              fmt::format("must be text, not {}; {}", show(element), consequence), index);
  return std::nullopt;
}

std::vector<IpAddress> address_list(const Fields& fields, std::string_view key) {
  std::vector<IpAddress> addresses;
  fields.each(key, [&](std::size_t index, const JsonValue& element) {
    const auto text = text_entry(fields, key, index, element, "this entry is left out");
    if (!text) return;
    if (const auto address = IpAddress::parse(*text)) return addresses.push_back(*address);
    fields.note(Severity::error, key,
                fmt::format("{} is no IP address; this entry is left out", show(*text)), index);
  });
  return addresses;
}

Node decode_node(const Fields& root, Metadata metadata) {
  Node node;
  node.name = std::move(metadata.name.name);
  node.zone = metadata.labels[std::string(kZoneLabel)];
  const Fields spec(root, "spec");
  node.pod_cidrs = pod_cidrs(spec);
  node.to_be_deleted = metadata.deleting || has_taint(spec, kToBeDeletedTaint);
  const Fields status(root, "status");
  status.each_object("addresses", [&](const Fields& entry) {
    const auto type = entry.text("type");
    auto* list = type == "InternalIP"   ? &node.internal_ips
                 : type == "ExternalIP" ? &node.external_ips
                                        : nullptr;
    if (list == nullptr) return;
    const auto text = entry.text("address");
    if (const auto address = IpAddress::parse(text)) return list->push_back(*address);
    entry.note(Severity::error, "address",
               fmt::format("{} is no IP address; this entry is left out", show(text)));
  });
  return node;
}

std::optional<Object> decode_object(const JsonValue& json, const std::string& origin,
                                    Problems& problems, std::optional<ObjectKind> implied) {
  Report report{.origin = origin,
                .problems = problems,
                .describe = [&] { return describe_json(json, implied); },
                .consequence = kObjectLeftOut};
  if (!json.is_object()) {
    report.add(Severity::error, "", fmt::format("must be an object, not {}", show(json)));
    return std::nullopt;
  }
  const Fields root(json, report);
  const auto kind = find_kind(json, implied);
  if (!kind) {
    root.refuse("kind", "must be Service, EndpointSlice or Node");
    return std::nullopt;
  }
  const auto version = root.text("apiVersion", version_text(json, implied));
  if (version != api_version_of(*kind)) {
    root.refuse("apiVersion", fmt::format("must be {}, not {}", api_version_of(*kind),
                                          version.empty() ? "missing" : version));
    return std::nullopt;
  }
  auto object = decode_as(*kind, root, decode_metadata(root, *kind));
  if (!object || report.refused) return std::nullopt;
  std::visit([&origin](auto& known) { known.origin = origin; }, *object);
  return object;
}

std::optional<std::string> why_unreadable(const std::optional<Object>& object,
                                          const Problems& problems) {
  if (object) return std::nullopt;
  const auto error = std::find_if(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.severity == Severity::error;
  });
  if (error == problems.end()) return std::nullopt;
  return to_string(*error);
}

}  // namespace ipvsproxier::api

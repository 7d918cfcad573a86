#pragma once

// The parts of decode.cc; only its sources include this header.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/fields.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::api {

// The metadata of any object, with only the labels that are used.
struct Metadata {
  NamespacedName name;
  std::optional<std::int64_t> creation_time;
  bool deleting = false;  // has a deletionTimestamp
  std::map<std::string, std::string> labels;
  std::vector<Annotation> annotations;  // of a Service: those of annotations.h, ordered by key
  std::optional<std::uint32_t> weight;  // of an EndpointSlice
  TriggerTime trigger;
};

Service decode_service(const Fields& root, Metadata metadata);
// nullopt without an error: no proxy serves this slice.
std::optional<EndpointSlice> decode_endpoint_slice(const Fields& root, Metadata metadata);
Node decode_node(const Fields& root, Metadata metadata);

// A port number of the API; nullopt: absent, or already reported.
std::optional<std::uint16_t> port_number(const Fields& fields, std::string_view key,
                                         std::int64_t smallest);
Protocol protocol_of(const Fields& fields);
// An element as text; nullopt after a problem that names the `consequence` ("this entry is left
// out").
std::optional<std::string_view> text_entry(const Fields& fields, std::string_view key,
                                           std::size_t index, const JsonValue& element,
                                           std::string_view consequence);
// The list's addresses; bad ones are reported and left out.
std::vector<IpAddress> address_list(const Fields& fields, std::string_view key);

}  // namespace ipvsproxier::api

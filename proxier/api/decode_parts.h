#pragma once

// The parts that decode.cc is made of; nobody else includes this.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/api/fields.h"
#include "proxier/api/objects.h"

namespace ipvsproxier::api {

// metadata of any object. Only the labels that somebody reads are kept.
struct Metadata {
  NamespacedName name;
  std::optional<std::int64_t> creation_time;
  bool deleting = false;  // has a deletionTimestamp
  std::map<std::string, std::string> labels;
  TriggerTime trigger;
};

Service decode_service(const Fields& root, Metadata metadata);
// nullopt without the object being refused: a slice that no proxy serves.
std::optional<EndpointSlice> decode_endpoint_slice(const Fields& root, Metadata metadata);
Node decode_node(const Fields& root, Metadata metadata);

// The port numbers of the API; nullopt: absent, or reported.
std::optional<std::uint16_t> port_number(const Fields& fields, std::string_view key,
                                         std::int64_t smallest);
Protocol protocol_of(const Fields& fields);
// An element as text; nullopt is noted with `consequence` ("this entry is left out").
std::optional<std::string_view> text_entry(const Fields& fields, std::string_view key,
                                           std::size_t index, const JsonValue& element,
                                           std::string_view consequence);
// The list's addresses; bad ones are noted and left out.
std::vector<IpAddress> address_list(const Fields& fields, std::string_view key);

}  // namespace ipvsproxier::api

#pragma once

// The kinds of objects that are decoded. A kind of the same name in another API group is a
// different kind. Pure.

#include <cstdint>
#include <string_view>

namespace ipvsproxier::api {

enum class ObjectKind : std::uint8_t { service, endpoint_slice, node };

std::string_view to_string(ObjectKind kind);       // "Service"
std::string_view api_version_of(ObjectKind kind);  // "v1", "discovery.k8s.io/v1"

}  // namespace ipvsproxier::api

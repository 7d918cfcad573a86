#pragma once

// The resources that the test API server has.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ipvsproxier::test {

enum class Resource : std::uint8_t { services, endpoint_slices, nodes };

inline constexpr std::array kResources{Resource::services, Resource::endpoint_slices,
                                       Resource::nodes};

struct ResourceFacts {
  Resource resource;
  std::string_view kind;
  std::string_view api_version;
  std::string_view path;    // of the list of all namespaces
  std::string_view plural;  // last part of the path
  bool namespaced;
  std::string_view bookmark;  // what the object of a bookmark has after its metadata
};

const ResourceFacts& facts_of(Resource resource);
std::optional<Resource> resource_of_kind(std::string_view kind);

}  // namespace ipvsproxier::test

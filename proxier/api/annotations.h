#pragma once

// The annotations that shape how a Service is proxied: the names of ours and of kube-router's.
// docs/services.md says what each means. Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ipvsproxier::api {

inline constexpr std::string_view kOurPrefix = "ipvs-proxier/";
inline constexpr std::string_view kKubeRouterPrefix = "kube-router.io/service.";

// On an EndpointSlice: the weight of its endpoints.
inline constexpr std::string_view kWeightAnnotation = "ipvs-proxier/weight";

// The limits of one value in bytes, and of the annotations of one Service that are read.
inline constexpr std::size_t kLongestAnnotation = 4096;
inline constexpr std::size_t kMostAnnotations = 64;

// The largest weight that ipvsadm takes.
inline constexpr std::uint32_t kLargestWeight = 65535;

// Whether the key has one of these prefixes.
bool is_ours(std::string_view key);

// "0" to "65535", with nothing around it.
std::optional<std::uint32_t> parse_weight(std::string_view text);

// Digits with nothing around them, up to `most`.
std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t most);

}  // namespace ipvsproxier::api

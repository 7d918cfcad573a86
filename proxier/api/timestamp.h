#pragma once

// RFC 3339 times, as the API prints them. Pure.

#include <cstdint>
#include <optional>
#include <string_view>

namespace ipvsproxier::api {

// "2026-11-20T22:19:50Z", "2026-11-20T23:19:50.5+01:00" -> seconds since 1970 UTC, fractions
// dropped; nullopt for anything else, such as a 30th of February.
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

}  // namespace ipvsproxier::api

#pragma once

// RFC 3339 times, as the API prints them. Pure.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ipvsproxier::api {

// "2026-11-20T22:19:50Z", "2026-11-20T23:19:50.5+01:00" -> seconds since 1970 UTC, fractions
// dropped; nullopt for anything else, such as a 30th of February.
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

// The same with the fraction, for times that fit (from 1678 to 2261).
std::optional<std::chrono::system_clock::time_point> parse_rfc3339_time(std::string_view text);

// "2026-11-20T22:19:50.000123Z": what the API calls MicroTime, which has six digits, always.
std::string to_rfc3339_micro(std::chrono::system_clock::time_point time);

}  // namespace ipvsproxier::api

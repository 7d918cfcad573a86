#pragma once

// RFC 3339 times, as the API writes them. Pure; any thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ipvsproxier::api {

// "2026-11-20T22:19:50Z", "2026-11-20T23:19:50.5+01:00" -> seconds since 1970 UTC without the
// fraction. nullopt for any other text or an impossible date such as February 30.
std::optional<std::int64_t> parse_rfc3339(std::string_view text);

// The same with the fraction, for times between 1678 and 2261.
std::optional<std::chrono::system_clock::time_point> parse_rfc3339_time(std::string_view text);

// "2026-11-20T22:19:50Z", from seconds since 1970 UTC.
std::string to_rfc3339(std::int64_t since_1970);

// "2026-11-20T22:19:50.000123Z": the API's MicroTime, always with six digits.
std::string to_rfc3339_micro(std::chrono::system_clock::time_point time);

}  // namespace ipvsproxier::api

#pragma once

// Durations in Go's text format. Pure.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ipvsproxier::api {

// "1m30s", "-1.5h", "250ms", "0"; units h, m, s, ms, us (or µs), ns. nullopt for other text, or for
// more than 292 years.
std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

// "1m30s", "250ms", "0s": Go's output format.
std::string format_go_duration(std::chrono::nanoseconds duration);

}  // namespace ipvsproxier::api

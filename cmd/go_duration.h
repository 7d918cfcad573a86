#pragma once

// Durations as Go programs write them in configuration files. Pure.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ipvsproxier::cmd {

// "1m30s", "-1.5h", "250ms", "0"; units h, m, s, ms, us (or µs), ns. nullopt when it is none or
// more than 292 years.
std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

// "1m30s", "250ms", "0s": the form that Go prints.
std::string format_go_duration(std::chrono::nanoseconds duration);

}  // namespace ipvsproxier::cmd

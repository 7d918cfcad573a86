#pragma once

// Flags as table rows: name, help and the function that applies the text. Pure.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

template <typename Target>
struct Flag {
  std::string_view name;  // without dashes
  // The name of the value in --help; "": a switch, whose text is true or false.
  std::string_view value;
  std::string help;
  // Applies one occurrence of the flag, in the order given. Returns a description of a mistake
  // ("must be ..."), or "".
  std::function<std::string(std::string_view text, Target& target)> set;
};

// Parse a text into a value. Return a description of a mistake, or ""; a mistake leaves the value
// unchanged.
std::string set_value(std::string_view text, std::string& value);
std::string set_value(std::string_view text, bool& value);
std::string set_value(std::string_view text, std::optional<bool>& value);
std::string set_value(std::string_view text, double& value);
std::string set_value(std::string_view text, std::int32_t& value);
std::string set_value(std::string_view text, std::uint32_t& value);
std::string set_value(std::string_view text, Nanoseconds& value);  // "1m30s"
// "a,b": appends; "" appends nothing.
std::string set_value(std::string_view text, std::vector<std::string>& value);
// "a=true,b=false": adds or replaces.
std::string set_value(std::string_view text, std::map<std::string, bool>& value);
// "file=2,other*=4": appends.
std::string set_value(std::string_view text, std::vector<VModule>& value);

// A `set` function for the member at the end of the path of members.
template <typename Target, auto... Path>
std::string set_member(std::string_view text, Target& target) {
  return set_value(text, (target.*....*Path));
}

}  // namespace ipvsproxier::config

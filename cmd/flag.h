#pragma once

// Flags as rows of tables: how one is called, what --help says of it and what its text sets. Pure.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/kube_proxy_config.h"

namespace ipvsproxier::cmd {

template <typename Target>
struct Flag {
  std::string_view name;   // without dashes
  std::string_view value;  // what --help calls the value; "": a switch, whose text is true or false
  std::string_view help;
  // What is wrong with the text ("must be ..."), or "". Called for each time that the flag is
  // given, in that order.
  std::string (*set)(std::string_view text, Target& target);
};

// Text -> value: what is wrong, or "". A wrong text leaves the value as it is.
std::string set_value(std::string_view text, std::string& value);
std::string set_value(std::string_view text, bool& value);
std::string set_value(std::string_view text, std::optional<bool>& value);
std::string set_value(std::string_view text, double& value);
std::string set_value(std::string_view text, std::int32_t& value);
std::string set_value(std::string_view text, std::uint32_t& value);
std::string set_value(std::string_view text, Nanoseconds& value);  // "1m30s"
// "a,b": appends; nothing for "".
std::string set_value(std::string_view text, std::vector<std::string>& value);
// "a=true,b=false": adds or replaces.
std::string set_value(std::string_view text, std::map<std::string, bool>& value);
// "file=2,other*=4": appends.
std::string set_value(std::string_view text, std::vector<VModule>& value);

// For a row's `set`: the member that the path of members leads to.
template <typename Target, auto... Path>
std::string set_member(std::string_view text, Target& target) {
  return set_value(text, (target.*....*Path));
}

}  // namespace ipvsproxier::cmd

#include "proxier/config/config_flag.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "netlink/text.h"
#include "proxier/api/go_duration.h"
#include "proxier/config/text.h"

namespace ipvsproxier::config {

namespace {

template <typename Number>
std::string set_whole_number(std::string_view text, Number& value) {
  const auto number = netlink::parse_number<Number>(text);
  if (!number)
    return fmt::format("must be a whole number from {} to {}", std::numeric_limits<Number>::min(),
                       std::numeric_limits<Number>::max());
  value = *number;
  return "";
}

std::optional<bool> parse_bool(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue = {"1", "t", "T", "TRUE", "true", "True"};
  constexpr std::array<std::string_view, 6> kFalse = {"0", "f", "F", "FALSE", "false", "False"};
  if (std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end()) return false;
  return std::nullopt;
}

// Splits "name=value" and trims both.
std::optional<std::pair<std::string, std::string>> split_pair(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  return std::pair(std::string(netlink::trimmed(text.substr(0, equals))),
                   std::string(netlink::trimmed(text.substr(equals + 1))));
}

}  // namespace

std::string set_value(std::string_view text, std::string& value) {
  value = text;
  return "";
}

std::string set_value(std::string_view text, bool& value) {
  const auto parsed = parse_bool(text);
  if (!parsed) return "must be true or false";
  value = *parsed;
  return "";
}

std::string set_value(std::string_view text, std::optional<bool>& value) {
  bool parsed = false;
  auto wrong = set_value(text, parsed);
  if (wrong.empty()) value = parsed;
  return wrong;
}

std::string set_value(std::string_view text, double& value) {
  const auto number = netlink::parse_number<double>(text);
  if (!number) return "must be a number";
  value = *number;
  return "";
}

std::string set_value(std::string_view text, std::int32_t& value) {
  return set_whole_number(text, value);
}

std::string set_value(std::string_view text, std::uint32_t& value) {
  return set_whole_number(text, value);
}

std::string set_value(std::string_view text, Nanoseconds& value) {
  const auto duration = api::parse_go_duration(text);
  if (!duration) return "must be a duration such as 30s or 1m30s";
  value = *duration;
  return "";
}

std::string set_value(std::string_view text, std::vector<std::string>& value) {
  if (text.empty()) return "";
  auto more = split_list(text);
  value.insert(value.end(), more.begin(), more.end());
  return "";
}

std::string set_value(std::string_view text, std::map<std::string, bool>& value) {
  auto result = value;
  for (const auto& element : split_list(text)) {
    if (element.empty()) continue;
    const auto pair = split_pair(element);
    const auto enabled = pair ? parse_bool(pair->second) : std::nullopt;
    if (!enabled) return "must be NAME=true or NAME=false, several separated by commas";
    result.insert_or_assign(pair->first, *enabled);
  }
  value = std::move(result);
  return "";
}

std::string set_value(std::string_view text, std::vector<VModule>& value) {
  auto result = value;
  for (const auto& element : split_list(text)) {
    if (element.empty()) continue;
    const auto pair = split_pair(element);
    const auto verbosity = pair ? netlink::parse_number<std::uint32_t>(pair->second) : std::nullopt;
    if (!verbosity || pair->first.empty()) return "must be PATTERN=N, several separated by commas";
    result.push_back(VModule{.file_pattern = pair->first, .verbosity = *verbosity});
  }
  value = std::move(result);
  return "";
}

}  // namespace ipvsproxier::config

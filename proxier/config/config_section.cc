#include "proxier/config/config_section.h"

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/api/json_tree.h"
#include "proxier/config/go_duration.h"
#include "proxier/config/text.h"

namespace ipvsproxier::config {

using api::Severity;

const ConfigSection::Json* ConfigSection::find(std::string_view key) {
  known_.emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const ConfigSection::Json* ConfigSection::find_list(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  wrong_type(key, "a list", *value);
  return nullptr;
}

void ConfigSection::read(std::string_view key, std::string& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_string()) return wrong_type(key, "text", *found);
  value = found->get<std::string>();
}

void ConfigSection::read(std::string_view key, bool& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_boolean()) return wrong_type(key, "true or false", *found);
  value = found->get<bool>();
}

void ConfigSection::read(std::string_view key, double& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_number()) return wrong_type(key, "a number", *found);
  value = found->get<double>();
}

void ConfigSection::read_integer(std::string_view key, std::int64_t smallest, std::int64_t largest,
                                 std::int64_t& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  const bool integer =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
  const auto number = integer ? found->get<std::int64_t>() : 0;
  if (!integer || number < smallest || number > largest)
    return wrong_type(key, fmt::format("a whole number from {} to {}", smallest, largest), *found);
  value = number;
}

void ConfigSection::read(std::string_view key, std::int32_t& value) {
  std::int64_t wide = value;
  read_integer(key, INT32_MIN, INT32_MAX, wide);
  value = static_cast<std::int32_t>(wide);
}

void ConfigSection::read(std::string_view key, std::uint32_t& value) {
  std::int64_t wide = value;
  read_integer(key, 0, UINT32_MAX, wide);
  value = static_cast<std::uint32_t>(wide);
}

void ConfigSection::read(std::string_view key, std::vector<std::string>& value) {
  const Json* found = find_list(key);
  if (found == nullptr) return;
  value.clear();
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Json& element = (*found)[i];
    if (element.is_string()) {
      value.push_back(element.get<std::string>());
    } else {
      wrong_type(fmt::format("{}[{}]", key, i), "text", element);
    }
  }
}

void ConfigSection::read(std::string_view key, std::map<std::string, bool>& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_object()) return wrong_type(key, "an object", *found);
  for (const auto& [name, element] : found->items()) {
    if (element.is_boolean()) {
      value[name] = element.get<bool>();
    } else {
      wrong_type(fmt::format("{}.{}", key, name), "true or false", element);
    }
  }
}

void ConfigSection::read(std::string_view key, std::vector<VModule>& value) {
  for (auto& element : sections(key)) {
    VModule module;
    element.read("filePattern", module.file_pattern);
    element.read("verbosity", module.verbosity);
    element.report_unknown();
    value.push_back(std::move(module));
  }
}

void ConfigSection::read(std::string_view key, std::chrono::nanoseconds& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  std::optional<std::chrono::nanoseconds> duration;
  if (found->is_string()) duration = parse_go_duration(found->get_ref<const std::string&>());
  if (found->is_number_integer() && *found == 0) duration = std::chrono::nanoseconds(0);
  if (!duration) return wrong_type(key, "a duration such as \"30s\" or \"1m30s\"", *found);
  value = *duration;
}

void ConfigSection::read_with_nanoseconds(std::string_view key, std::chrono::nanoseconds& value) {
  const Json* found = find(key);
  if (found == nullptr || !found->is_number()) return read(key, value);
  std::int64_t count = value.count();
  read_integer(key, INT64_MIN, INT64_MAX, count);
  value = std::chrono::nanoseconds(count);
}

void ConfigSection::read_quantity(std::string_view key, std::string& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (!found->is_number() && !found->is_string()) return wrong_type(key, "a quantity", *found);
  const std::string text =
      found->is_string() ? found->get<std::string>() : api::to_json_text(*found);
  if (!is_quantity(text)) return wrong_type(key, "a quantity such as 0 or \"64Ki\"", *found);
  value = text;
}

std::optional<ConfigSection> ConfigSection::section(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (found->is_object()) {
    ConfigSection result(*found, path_of(key), origin_, problems_);
    result.severity_ = severity_;
    return result;
  }
  wrong_type(key, "an object", *found);
  return std::nullopt;
}

std::vector<ConfigSection> ConfigSection::sections(std::string_view key) {
  std::vector<ConfigSection> result;
  const Json* found = find_list(key);
  if (found == nullptr) return result;
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Json& element = (*found)[i];
    const auto name = fmt::format("{}[{}]", key, i);
    if (element.is_object()) {
      result.push_back(ConfigSection(element, path_of(name), origin_, problems_));
      result.back().severity_ = severity_;
    } else {
      wrong_type(name, "an object", element);
    }
  }
  return result;
}

void ConfigSection::report_unknown() const {
  for (const auto& [key, value] : object_.items()) {
    if (known_.find(key) == known_.end())
      problem(Severity::warning, key, "unknown field; it is ignored");
  }
}

void ConfigSection::wrong_type(std::string_view key, std::string_view wanted,
                               const Json& value) const {
  problem(severity_, key,
          fmt::format("must be {}, not {}{}", wanted, api::show(value),
                      severity_ == Severity::error ? "" : "; it has no effect here"));
}

void ConfigSection::problem(Severity severity, std::string_view key, std::string message) const {
  problems_.push_back(api::Problem{.severity = severity,
                                   .origin = origin_,
                                   .field = path_of(key),
                                   .message = std::move(message)});
}

std::string ConfigSection::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

}  // namespace ipvsproxier::config

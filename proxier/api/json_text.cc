#include "proxier/api/json_text.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::api {

namespace {

template <typename Json>
std::string text_of(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json_text(const nlohmann::json& value, int indent) {
  return text_of(value, indent);
}

std::string to_json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of(value, indent);
}

nlohmann::json visible_texts(nlohmann::json value) {
  if (value.is_string()) return visible(value.get_ref<const std::string&>());
  if (value.is_structured())
    for (auto& part : value) part = visible_texts(std::move(part));
  return value;
}

std::string json_quoted(std::string_view text) {
  return text_of(nlohmann::json(text), -1);
}

}  // namespace ipvsproxier::api

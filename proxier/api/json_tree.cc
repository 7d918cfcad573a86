#include "proxier/api/json_tree.h"

#include <utility>

#include "proxier/api/json_text.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::api {

namespace {

constexpr std::size_t kShownBytes = 60;

}  // namespace

// Recursion is bounded: every document was read within kMaxDepth.
Json to_tree(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::null:
      return nullptr;
    case JsonValue::Kind::boolean:
      return *value.boolean();
    case JsonValue::Kind::integer:
      return *value.integer();
    case JsonValue::Kind::large_integer:
      return *value.large_integer();
    case JsonValue::Kind::real:
      return *value.real();
    case JsonValue::Kind::text:
      return std::string(*value.text());
    case JsonValue::Kind::list: {
      Json list = Json::array();
      for (const auto& element : value.elements()) list.push_back(to_tree(element));
      return list;
    }
    case JsonValue::Kind::object: {
      Json object = Json::object();
      for (const auto& [key, member] : value.members()) object[std::string(key)] = to_tree(member);
      return object;
    }
  }
  return nullptr;
}

std::string_view kind_of_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "text";
    case Json::value_t::boolean:
      return "true or false";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return "nothing";
}

std::string show(const Json& value) {
  if (value.is_structured()) return std::string(kind_of_json(value));
  if (value.is_string() && value.get_ref<const std::string&>().size() > kShownBytes)
    return json_quoted(head_of(value.get_ref<const std::string&>(), kShownBytes)) + "...";
  return to_json_text(value);
}

}  // namespace ipvsproxier::api

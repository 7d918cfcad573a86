#include "proxier/api/fields.h"

#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::api {

namespace {

constexpr std::size_t kShownCharacters = 60;

std::string left_out(std::string message) {
  return std::move(message) + "; the object is left out";
}

}  // namespace

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
  if (value.is_string() && value.get_ref<const std::string&>().size() > kShownCharacters) {
    const auto start = value.get_ref<const std::string&>().substr(0, kShownCharacters);
    return Json(start).dump(-1, ' ', false, Json::error_handler_t::replace) + "...";
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_empty_text(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

void Report::add(Severity severity, std::string field, std::string message) {
  problems.push_back(Problem{.severity = severity,
                             .origin = origin,
                             .object = object,
                             .field = std::move(field),
                             .message = std::move(message)});
}

Fields::Fields(const Fields& parent, std::string_view key)
    : report_(parent.report_), parent_(&parent), key_(key) {
  const Json* value = parent.find(key);
  if (value == nullptr) return;
  if (value->is_object()) {
    object_ = value;
    return;
  }
  parent.refuse(key, fmt::format("must be an object, not {}", show(*value)));
}

Fields::Fields(const Fields& parent, std::string_view key, std::size_t index, const Json& element)
    : report_(parent.report_), parent_(&parent), key_(key), index_(index) {
  if (element.is_object()) {
    object_ = &element;
    return;
  }
  parent.refuse(key, fmt::format("must be an object, not {}", show(element)), index);
}

const Json* Fields::find(std::string_view key) const {
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(key);
  if (found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

bool Fields::has(std::string_view key) const {
  return object_ != nullptr && object_->contains(key);
}

const Json* Fields::find_list(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  refuse(key, fmt::format("must be a list, not {}", show(*value)));
  return nullptr;
}

std::string Fields::text(std::string_view key, std::string_view fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  refuse(key, fmt::format("must be text, not {}", show(*value)));
  return std::string(fallback);
}

bool Fields::boolean(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  refuse(key, fmt::format("must be true or false, not {}", show(*value)));
  return fallback;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t smallest,
                                            std::int64_t largest) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool representable =
      value->is_number_unsigned()
          ? value->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
          : value->is_number_integer();
  if (representable) {
    const auto number = value->get<std::int64_t>();
    if (number >= smallest && number <= largest) return number;
  }
  refuse(key, fmt::format("must be a whole number from {} to {}, not {}", smallest, largest,
                          show(*value)));
  return std::nullopt;
}

void Fields::refuse(std::string_view key, std::string message, std::size_t index) const {
  report_.refused = true;
  note(Severity::error, key, left_out(std::move(message)), index);
}

void Fields::note(Severity severity, std::string_view key, std::string message,
                  std::size_t index) const {
  report_.add(severity, path_of(key, index), std::move(message));
}

std::string Fields::path() const {
  return parent_ == nullptr ? std::string() : parent_->path_of(key_, index_);
}

std::string Fields::path_of(std::string_view key, std::size_t index) const {
  std::string text = path();
  if (!text.empty()) text += '.';
  text += key;
  if (index != kNoIndex) text += fmt::format("[{}]", index);
  return text;
}

}  // namespace ipvsproxier::api

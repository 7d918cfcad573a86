#include "proxier/api/fields.h"

#include <utility>

#include <fmt/format.h>

#include "proxier/api/json_tree.h"

namespace ipvsproxier::api {

namespace {

std::string left_out(std::string message) {
  return std::move(message) + "; the object is left out";
}

}  // namespace

std::string show(const JsonValue& value) {
  if (value.is_object()) return "an object";
  if (value.is_list()) return "a list";
  return show(to_tree(value));
}

std::string show(std::string_view text) {
  return show(Json(text));
}

bool is_empty_text(const JsonValue& value) {
  return value.text() == "";
}

void Report::add(Severity severity, std::string field, std::string message) {
  problems.push_back(Problem{.severity = severity,
                             .origin = origin,
                             .object = describe(),
                             .field = std::move(field),
                             .message = std::move(message)});
}

Fields::Fields(const Fields& parent, std::string_view key)
    : report_(parent.report_), parent_(&parent), key_(key) {
  const auto value = parent.find(key);
  if (!value) return;
  if (value->is_object()) {
    object_ = value;
    return;
  }
  parent.refuse(key, fmt::format("must be an object, not {}", show(*value)));
}

Fields::Fields(const Fields& parent, std::string_view key, std::size_t index,
               const JsonValue& element)
    : report_(parent.report_), parent_(&parent), key_(key), index_(index) {
  if (element.is_object()) {
    object_ = element;
    return;
  }
  parent.refuse(key, fmt::format("must be an object, not {}", show(element)), index);
}

std::optional<JsonValue> Fields::find(std::string_view key) const {
  if (!object_) return std::nullopt;
  const auto found = object_->find(key);
  return found && found->is_null() ? std::nullopt : found;
}

bool Fields::has(std::string_view key) const {
  return object_ && object_->find(key);
}

std::optional<JsonValue> Fields::find_list(std::string_view key) const {
  const auto value = find(key);
  if (!value || value->is_list()) return value;
  refuse(key, fmt::format("must be a list, not {}", show(*value)));
  return std::nullopt;
}

std::string Fields::text(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  if (!value) return std::string(fallback);
  if (const auto text = value->text()) return std::string(*text);
  refuse(key, fmt::format("must be text, not {}", show(*value)));
  return std::string(fallback);
}

bool Fields::boolean(std::string_view key, bool fallback) const {
  const auto value = find(key);
  if (!value) return fallback;
  if (const auto boolean = value->boolean()) return *boolean;
  refuse(key, fmt::format("must be true or false, not {}", show(*value)));
  return fallback;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t smallest,
                                            std::int64_t largest) const {
  const auto value = find(key);
  if (!value) return std::nullopt;
  const auto number = value->integer();
  if (number && *number >= smallest && *number <= largest) return number;
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

#include "proxier/api/fields.h"

#include <utility>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::api {

namespace {

constexpr std::size_t kShownBytes = 60;

}  // namespace

std::string show(const JsonValue& value) {
  if (value.is_object() || value.is_list()) return std::string(kind_name(value));
  if (const auto text = value.text()) return show(*text);
  return to_json_text(value);
}

std::string show(std::string_view text) {
  if (text.size() <= kShownBytes) return json_quoted(text);
  return json_quoted(head_of(text, kShownBytes)) + "...";
}

std::string_view kind_name(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::boolean:
      return "true or false";
    case JsonValue::Kind::integer:
    case JsonValue::Kind::large_integer:
    case JsonValue::Kind::real:
      return "a number";
    case JsonValue::Kind::text:
      return "text";
    case JsonValue::Kind::list:
      return "a list";
    case JsonValue::Kind::object:
      return "an object";
    case JsonValue::Kind::null:
      break;
  }
  return "nothing";
}

bool is_empty_text(const JsonValue& value) {
  return value.text() == "";
}

void Report::add(Severity weight, std::string field, std::string message) {
  problems.push_back(Problem{.severity = weight,
                             .origin = origin,
                             .object = describe ? describe() : "",
                             .field = std::move(field),
                             .message = std::move(message)});
}

Fields::Fields(const JsonValue& root, Report& report) : report_(report) {
  if (root.is_object())
    object_ = root;
  else
    wrong_type("", "an object", root);
}

Fields::Fields(const Fields& parent, std::string_view key)
    : report_(parent.report_), parent_(&parent), key_(key) {
  const auto value = parent.find(key);
  if (!value) return;
  if (value->is_object())
    object_ = value;
  else
    parent.wrong_type(key, "an object", *value);
}

Fields::Fields(const Fields& parent, std::string_view key, std::size_t index,
               const JsonValue& element)
    : report_(parent.report_), parent_(&parent), key_(key), index_(index) {
  if (element.is_object())
    object_ = element;
  else
    parent.wrong_type(key, "an object", element, index);
}

std::optional<JsonValue> Fields::find(std::string_view key) const {
  if (!object_) return std::nullopt;
  auto found = object_->find(key);
  if (found && found->is_null()) found.reset();
  return found;
}

bool Fields::has(std::string_view key) const {
  return object_ && object_->find(key);
}

std::optional<JsonValue> Fields::find_list(std::string_view key) const {
  const auto value = find(key);
  if (!value || value->is_list()) return value;
  wrong_type(key, "a list", *value);
  return std::nullopt;
}

// Who does not see the value is told the usual reason: an unquoted number or date of YAML.
std::string_view Fields::expected_text() const {
  return report_.hides_values ? "text (in quotes)" : "text";
}

std::string Fields::text(std::string_view key, std::string_view fallback) const {
  const auto value = find(key);
  if (!value) return std::string(fallback);
  if (const auto text = value->text()) return std::string(*text);
  wrong_type(key, expected_text(), *value);
  return std::string(fallback);
}

bool Fields::boolean(std::string_view key, bool fallback) const {
  const auto value = find(key);
  if (!value) return fallback;
  if (const auto boolean = value->boolean()) return *boolean;
  wrong_type(key, "true or false", *value);
  return fallback;
}

double Fields::number(std::string_view key, double fallback) const {
  const auto value = find(key);
  if (!value) return fallback;
  if (const auto number = value->number()) return *number;
  wrong_type(key, "a number", *value);
  return fallback;
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t smallest,
                                            std::int64_t largest) const {
  const auto value = find(key);
  if (!value) return std::nullopt;
  const auto number = value->integer();
  if (number && *number >= smallest && *number <= largest) return number;
  wrong_type(key, fmt::format("a whole number from {} to {}", smallest, largest), *value);
  return std::nullopt;
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key) const {
  const auto list = find_list(key);
  if (!list) return std::nullopt;
  std::vector<std::string> texts;
  std::size_t index = 0;
  for (const auto& element : list->elements()) {
    if (const auto text = element.text())
      texts.emplace_back(*text);
    else
      wrong_type(key, expected_text(), element, index);
    ++index;
  }
  return texts;
}

void Fields::refuse(std::string_view key, std::string message, std::size_t index) const {
  report_.refused = report_.refused || report_.severity == Severity::error;
  if (!report_.consequence.empty()) message += fmt::format("; {}", report_.consequence);
  note(report_.severity, key, std::move(message), index);
}

void Fields::wrong_type(std::string_view key, std::string_view expected, const JsonValue& value,
                        std::size_t index) const {
  refuse(key,
         fmt::format("must be {}, not {}", expected,
                     report_.hides_values ? std::string(kind_name(value)) : show(value)),
         index);
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
  if (!text.empty() && !key.empty()) text += '.';
  text += key;
  if (index != kNoIndex) text += fmt::format("[{}]", index);
  return text;
}

}  // namespace ipvsproxier::api

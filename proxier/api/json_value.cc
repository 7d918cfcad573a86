#include "proxier/api/json_value.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <simdjson.h>

#include "proxier/api/document_writer.h"

namespace ipvsproxier::api {

namespace {

// The tape is private to simdjson, and the same from 3.0 to 4 (its doc/tape.md). Before another
// version is allowed here, compare that document with JsonTape.
static_assert(simdjson::SIMDJSON_VERSION_MAJOR >= 3 && simdjson::SIMDJSON_VERSION_MAJOR <= 4,
              "another version of simdjson than those whose tape JsonValue can walk");

// Kinds of words on the tape.
constexpr char kTrue = 't';
constexpr char kFalse = 'f';
constexpr char kInteger = 'l';
constexpr char kLargeInteger = 'u';
constexpr char kReal = 'd';
constexpr char kText = '"';
constexpr char kList = '[';
constexpr char kObject = '{';

// The word of a number is followed by a word with its value.
template <typename Number>
Number number_behind(const std::uint64_t* word) {
  Number number;
  static_assert(sizeof(number) == sizeof(*word));
  std::memcpy(&number, word + 1, sizeof(number));
  return number;
}

}  // namespace

JsonValue::Kind JsonValue::kind() const {
  switch (tag()) {
    case kTrue:
    case kFalse:
      return Kind::boolean;
    case kInteger:
      return Kind::integer;
    case kLargeInteger:
      return Kind::large_integer;
    case kReal:
      return Kind::real;
    case kText:
      return Kind::text;
    case kList:
      return Kind::list;
    case kObject:
      return Kind::object;
    default:
      return Kind::null;
  }
}

std::optional<bool> JsonValue::boolean() const {
  if (kind() != Kind::boolean) return std::nullopt;
  return tag() == kTrue;
}

std::optional<std::int64_t> JsonValue::integer() const {
  if (tag() != kInteger) return std::nullopt;
  return number_behind<std::int64_t>(tape_->words + index_);
}

std::optional<std::uint64_t> JsonValue::large_integer() const {
  if (tag() != kLargeInteger) return std::nullopt;
  return number_behind<std::uint64_t>(tape_->words + index_);
}

std::optional<double> JsonValue::real() const {
  if (tag() != kReal) return std::nullopt;
  return number_behind<double>(tape_->words + index_);
}

std::optional<double> JsonValue::number() const {
  if (const auto small = integer()) return static_cast<double>(*small);
  if (const auto large = large_integer()) return static_cast<double>(*large);
  return real();
}

std::optional<std::string_view> JsonValue::text() const {
  if (tag() != kText) return std::nullopt;
  return text_here();
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  std::optional<JsonValue> found;
  for (const auto& member : members())
    if (member.key == key) found = member.value;
  return found;
}

// The last word of a list or object is its closing bracket.
JsonValue::Elements JsonValue::elements() const {
  if (!is_list()) return {*this, *this};
  return {inside(), {*tape_, behind().index_ - 1}};
}

std::size_t JsonValue::Elements::count() const {
  std::size_t count = 0;
  for (auto it = begin(); it != end(); ++it) ++count;
  return count;
}

JsonValue::Members JsonValue::members() const {
  if (!is_object()) return {*this, *this};
  return {inside(), {*tape_, behind().index_ - 1}};
}

struct JsonDocument::Storage {
  simdjson::dom::document document;
  JsonTape tape;
};

void JsonDocument::Delete::operator()(Storage* storage) const {
  delete storage;
}

JsonDocument::JsonDocument(std::unique_ptr<Storage, Delete> storage)
    : storage_(std::move(storage)), tape_(&storage_->tape) {}

// The parser's memory (about five bytes for each byte of text) is released with this call. Reusing
// it would save next to nothing and keep the memory of the largest text for good.
netlink::Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  std::unique_ptr<Storage, Delete> storage(new Storage);
  simdjson::dom::parser parser;
  auto error = parser.allocate(text.size(), kMaxDepth);
  if (!error)
    error = parser.parse_into_document(storage->document, text.data(), text.size(), true).error();
  if (error)
    return netlink::Error{.kind = netlink::ErrorKind::malformed,
                          .where = fmt::format("no JSON: {}", simdjson::error_message(error))};
  storage->tape =
      JsonTape{.words = storage->document.tape.get(), .texts = storage->document.string_buf.get()};
  return JsonDocument(std::move(storage));
}

// Recursion is bounded: every document was read within kMaxDepth.
void write_value(DocumentWriter& out, const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::null:
      return out.value(nullptr);
    case JsonValue::Kind::boolean:
      return out.value(*value.boolean());
    case JsonValue::Kind::integer:
      return out.value(*value.integer());
    case JsonValue::Kind::large_integer:
      return out.value(*value.large_integer());
    case JsonValue::Kind::real:
      return out.value(*value.real());
    case JsonValue::Kind::text:
      return out.value(*value.text());
    case JsonValue::Kind::list:
      return out.list(value.elements(), [&](const JsonValue& one) { write_value(out, one); });
    case JsonValue::Kind::object: {
      std::map<std::string_view, JsonValue> members;
      for (const auto& [key, member] : value.members()) members.insert_or_assign(key, member);
      return out.object([&] {
        for (const auto& [key, member] : members) {
          out.key(key);
          write_value(out, member);
        }
      });
    }
  }
}

std::string to_json_text(const JsonValue& value) {
  JsonWriter out;
  write_value(out, value);
  return out.take();
}

bool has_duplicate_keys(const JsonValue& value) {
  for (const auto& element : value.elements())
    if (has_duplicate_keys(element)) return true;
  std::vector<std::string_view> keys;
  for (const auto& [key, member] : value.members()) {
    keys.push_back(key);
    if (has_duplicate_keys(member)) return true;
  }
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
}

}  // namespace ipvsproxier::api

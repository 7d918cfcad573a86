#pragma once

// JsonDocument reads JSON: of objects, and of configuration, kubeconfigs and plugins (documents.h;
// YAML is converted to JSON first). JsonValue is a view of one of its values. Only this file and
// its source use simdjson. Its DOM was chosen by a benchmark, which is not kept: more
// than ten times as fast as trees or events of nlohmann-json, and not slower than simdjson's
// On-Demand interface, which detects broken text late and wants members in their order.
//
// JsonValue walks simdjson's tape by itself. Over the public dom::element, object and array, kept
// as bytes so that simdjson's 31,000 lines (3.5 seconds for each source) stay out of this header,
// the decoder was 5 to 9 % slower (rows decode_list_item: services 0.946, slices of 10 endpoints
// 0.931, of 100 0.907 of this speed), and 14 to 24 % slower with the kind kept beside the bytes.
//
// One thread at a time. Never throws because of its input.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::api {

class DocumentWriter;

// Limit on nested objects and lists. The fields of Kubernetes objects that are read lie less than
// 20 levels deep; other fields may lie deeper (broken_json.h).
inline constexpr std::size_t kMaxDepth = 100;

// The result of simdjson (its doc/tape.md): one 64-bit word for each value, with the value's kind
// in the highest byte; the words of the value's contents follow.
struct JsonTape {
  const std::uint64_t* words = nullptr;
  const std::uint8_t* texts = nullptr;
};

// A view; valid as long as its document.
class JsonValue {
 public:
  enum class Kind : std::uint8_t {
    null,
    boolean,
    integer,        // fits std::int64_t
    large_integer,  // fits std::uint64_t only
    real,           // written with a fraction or an exponent
    text,
    list,
    object,
  };
  struct Member;
  class Elements;
  class Members;

  Kind kind() const;
  bool is_null() const { return tag() == 'n'; }
  bool is_number() const { return number().has_value(); }
  bool is_text() const { return tag() == '"'; }
  bool is_list() const { return tag() == '['; }
  bool is_object() const { return tag() == '{'; }

  // nullopt: the value is of another kind.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<std::uint64_t> large_integer() const;
  std::optional<double> real() const;
  std::optional<double> number() const;  // of any of these three kinds
  std::optional<std::string_view> text() const;

  // A member, even if null; of repeated keys the last one, as in an API server. nullopt: absent, or
  // this is no object.
  std::optional<JsonValue> find(std::string_view key) const;
  Elements elements() const;  // empty unless this is a list
  Members members() const;    // empty unless this is an object

 private:
  friend class JsonDocument;
  JsonValue(const JsonTape& tape, std::size_t index) : tape_(&tape), index_(index) {}

  char tag() const { return static_cast<char>(tape_->words[index_] >> 56U); }
  // The lowest 56 bits of a text's or key's word are the position of the text: its length in four
  // bytes, then its bytes.
  std::string_view text_here() const {
    constexpr std::uint64_t kPayload = (std::uint64_t{1} << 56U) - 1;
    const auto* at = tape_->texts + (tape_->words[index_] & kPayload);
    std::uint32_t length = 0;
    std::memcpy(&length, at, sizeof(length));
    return {reinterpret_cast<const char*>(at) + sizeof(length), length};
  }
  // The value after this one. The lowest half of an opening bracket's word is the index after the
  // closing bracket; a number takes two words.
  JsonValue behind() const {
    const auto word = tape_->words[index_];
    const auto tag = static_cast<char>(word >> 56U);
    if (tag == '[' || tag == '{') return {*tape_, static_cast<std::uint32_t>(word)};
    return {*tape_, index_ + (tag == 'l' || tag == 'u' || tag == 'd' ? 2U : 1U)};
  }
  JsonValue inside() const { return {*tape_, index_ + 1}; }

  const JsonTape* tape_;
  std::size_t index_;
};

// Ranges for range-based for loops.
class JsonValue::Elements {
 public:
  class Iterator {
   public:
    explicit Iterator(JsonValue at) : at_(at) {}
    JsonValue operator*() const { return at_; }
    Iterator& operator++() {
      at_ = at_.behind();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_.index_ == other.at_.index_; }

   private:
    JsonValue at_;
  };

  Elements(JsonValue first, JsonValue end) : first_(first), end_(end) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(end_); }
  bool empty() const { return begin() == end(); }
  std::size_t count() const;  // linear

 private:
  JsonValue first_;
  JsonValue end_;
};

struct JsonValue::Member {
  std::string_view key;
  JsonValue value;
};

class JsonValue::Members {
 public:
  class Iterator {
   public:
    explicit Iterator(JsonValue at) : at_(at) {}
    Member operator*() const { return {at_.text_here(), at_.inside()}; }
    Iterator& operator++() {
      at_ = at_.inside().behind();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_.index_ == other.at_.index_; }

   private:
    JsonValue at_;
  };

  Members(JsonValue first, JsonValue end) : first_(first), end_(end) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(end_); }
  bool empty() const { return begin() == end(); }

 private:
  JsonValue first_;
  JsonValue end_;
};

class JsonDocument {
 public:
  // Parses one value. An error (`malformed`) says what is wrong, but not where: no JSON, text after
  // the value, more than kMaxDepth levels, an integer beyond 64 bits, invalid UTF-8. Does not keep
  // a reference to the text.
  static netlink::Result<JsonDocument> parse(std::string_view text);

  JsonValue root() const { return {*tape_, 1}; }

 private:
  struct Storage;
  struct Delete {
    void operator()(Storage* storage) const;
  };

  explicit JsonDocument(std::unique_ptr<Storage, Delete> storage);

  std::unique_ptr<Storage, Delete> storage_;
  const JsonTape* tape_;
};

// Writes the value: members by name, of repeated ones the last.
void write_value(DocumentWriter& out, const JsonValue& value);
// The same as JSON on one line.
std::string to_json_text(const JsonValue& value);

// Whether any object in the value has two members with the same name.
bool has_duplicate_keys(const JsonValue& value);

}  // namespace ipvsproxier::api

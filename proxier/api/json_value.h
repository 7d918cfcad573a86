#pragma once

// JsonDocument, the one reading of JSON for objects (the API's wire, JSON manifests and, made into
// JSON, YAML ones), and JsonValue, a view of one of its values. The only file pair that knows
// simdjson, whose DOM was chosen by measurement (test/bench/decode_bench.cc): more than ten times
// as fast as trees or events of nlohmann-json, and no slower than simdjson's On-Demand, which finds
// out only on the way that a text is broken and wants members in the order in which they come.
//
// A document is used by one thread at a time. Never throws on account of its input.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::api {

// Objects and lists inside each other; what is read of Kubernetes objects stays below 20, what
// their writers may put beside it does not (broken_json.h).
inline constexpr std::size_t kMaxDepth = 100;

// What the reader leaves of a text (simdjson's doc/tape.md): a word for each value, its kind in the
// highest byte; behind it the words of what it holds.
struct JsonTape {
  const std::uint64_t* words = nullptr;
  const std::uint8_t* texts = nullptr;
};

// Valid while its document is.
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
  bool is_text() const { return tag() == '"'; }
  bool is_list() const { return tag() == '['; }
  bool is_object() const { return tag() == '{'; }

  // nullopt: it is of another kind.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<std::uint64_t> large_integer() const;
  std::optional<double> real() const;
  std::optional<std::string_view> text() const;

  // A member, be it null; of several of one name the last, as an API server reads it. nullopt: not
  // there, or this is no object.
  std::optional<JsonValue> find(std::string_view key) const;
  Elements elements() const;  // of a list; none of anything else
  Members members() const;    // of an object; none of anything else

 private:
  friend class JsonDocument;
  JsonValue(const JsonTape& tape, std::size_t index) : tape_(&tape), index_(index) {}

  char tag() const { return static_cast<char>(tape_->words[index_] >> 56U); }
  // A text's or key's word says in its lowest 56 bits where the text is: its length in four bytes,
  // then the text itself.
  std::string_view text_here() const {
    constexpr std::uint64_t kPayload = (std::uint64_t{1} << 56U) - 1;
    const auto* at = tape_->texts + (tape_->words[index_] & kPayload);
    std::uint32_t length = 0;
    std::memcpy(&length, at, sizeof(length));
    return {reinterpret_cast<const char*>(at) + sizeof(length), length};
  }
  // What comes after this value. The lowest half of a bracket's word is the index behind its
  // partner; a number takes two words.
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

// Ranges for range-based for.
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
  std::size_t count() const;  // goes through them

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
  // Of one value. An error (malformed) says what is wrong, not where: no JSON, anything behind the
  // value, more than kMaxDepth levels, an integer beyond 64 bits, text that is no UTF-8. The text
  // is not kept.
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

// Whether an object in it has two members of one name.
bool has_duplicate_keys(const JsonValue& value);

}  // namespace ipvsproxier::api

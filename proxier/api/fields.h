#pragma once

// Fields: typed reading of the members of a JSON object: of the API's objects, of configuration, of
// a kubeconfig, of a plugin's answer. Each invalid value becomes a Problem with the field's path; a
// Report says how much it weighs. null counts as absent everywhere, as in the API. Values for one
// reading on one thread; the JSON and the Report must outlive them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxier/api/json_value.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

// The value as written, text in quotes, cut after about 60 characters; for an object or a list only
// its kind.
std::string show(const JsonValue& value);
std::string show(std::string_view text);

// The kind of a value for messages: "a number", "an object".
std::string_view kind_name(const JsonValue& value);

// Whether the value is the text "".
bool is_empty_text(const JsonValue& value);

// The consequence of a wrong value in an object of the API.
inline constexpr std::string_view kObjectLeftOut = "the object is left out";

// Where the problems of one object or file go, and what a wrong value of it means.
struct Report {
  std::string origin;
  Problems& problems;
  // Names the object; called only if there is a problem.
  std::function<std::string()> describe = {};
  // Values may be secrets: messages name their kind only.
  bool hides_values = false;
  // Of each wrong value from now on: the severity, and the end of its message.
  Severity severity = Severity::error;
  std::string_view consequence = {};
  bool refused = false;  // there was a wrong value that is an error

  void add(Severity weight, std::string field, std::string message);
};

class Fields {
 public:
  static constexpr std::size_t kNoIndex = std::numeric_limits<std::size_t>::max();

  // The document, or an item of a list. A value that is no JSON object is refused and has no
  // fields.
  Fields(const JsonValue& root, Report& report);
  // Member `key` of `parent`, likewise. An absent member has no fields.
  Fields(const Fields& parent, std::string_view key);
  // Element `index` of the list `key` of `parent`, likewise.
  Fields(const Fields& parent, std::string_view key, std::size_t index, const JsonValue& element);
  // Paths are built from parents when they are needed: a parent must outlive its children, and
  // their copies, and not be a temporary.
  Fields(const Fields&&, std::string_view) = delete;
  Fields(const Fields&&, std::string_view, std::size_t, const JsonValue&) = delete;

  bool exists() const { return object_.has_value(); }
  std::optional<JsonValue> find(std::string_view key) const;  // nullopt: absent or null
  bool has(std::string_view key) const;                       // present, even if null

  // A wrong type or value is refused; then, and for an absent member, returns the fallback.
  std::string text(std::string_view key, std::string_view fallback = "") const;
  bool boolean(std::string_view key, bool fallback) const;
  double number(std::string_view key, double fallback) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t smallest,
                                      std::int64_t largest) const;
  // The texts of a list; nullopt: absent or no list.
  std::optional<std::vector<std::string>> texts(std::string_view key) const;

  // Calls visit(index, element) for each element of a list.
  template <typename Visit>
  void each(std::string_view key, Visit visit) const {
    const auto list = find_list(key);
    if (!list) return;
    std::size_t index = 0;
    for (const auto& element : list->elements()) visit(index++, element);
  }
  // Calls visit(fields) for each element of a list of objects.
  template <typename Visit>
  void each_object(std::string_view key, Visit visit) const {
    each(key, [&](std::size_t index, const JsonValue& element) {
      if (const Fields entry(*this, key, index, element); entry.exists()) visit(entry);
    });
  }
  // Calls visit(key, value) for each member, null or not.
  template <typename Visit>
  void each_member(Visit visit) const {
    if (!object_) return;
    for (const auto& [key, value] : object_->members()) visit(key, value);
  }

  // Reports a problem of member `key` (or of its element `index`; of this object, if `key` is "")
  // as the Report says.
  void refuse(std::string_view key, std::string message, std::size_t index = kNoIndex) const;
  // Refuses a value: "must be `expected`, not 5".
  void wrong_type(std::string_view key, std::string_view expected, const JsonValue& value,
                  std::size_t index = kNoIndex) const;
  // Reports a problem with a weight of its own; the message names the consequence.
  void note(Severity severity, std::string_view key, std::string message,
            std::size_t index = kNoIndex) const;

 private:
  std::optional<JsonValue> find_list(std::string_view key) const;
  std::string_view expected_text() const;
  std::string path() const;
  std::string path_of(std::string_view key, std::size_t index) const;

  std::optional<JsonValue> object_;
  Report& report_;
  const Fields* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = kNoIndex;
};

}  // namespace ipvsproxier::api

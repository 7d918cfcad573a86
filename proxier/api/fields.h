#pragma once

// Fields: typed reading of the members of a JSON object; each invalid value becomes a Problem with
// the field's path. null counts as absent everywhere, as in the API. Values for one decode on one
// thread; the JSON and the Report must outlive them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proxier/api/json_value.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

// The value as written, text in quotes, cut after about 60 characters; for an object or a list only
// its kind.
std::string show(const JsonValue& value);
std::string show(std::string_view text);

// Whether the value is the text "".
bool is_empty_text(const JsonValue& value);

// Collects the problems of one object. The object is described only if there is a problem.
struct Report {
  Report(std::string origin_of_all, std::function<std::string()> describe_object, Problems& list)
      : origin(std::move(origin_of_all)), describe(std::move(describe_object)), problems(list) {}

  void add(Severity severity, std::string field, std::string message);

  std::string origin;
  std::function<std::string()> describe;
  Problems& problems;
  bool refused = false;  // an error that costs the whole object was found
};

class Fields {
 public:
  static constexpr std::size_t kNoIndex = std::numeric_limits<std::size_t>::max();

  // The document, or an item of a list; refuses the object if this is no JSON object.
  Fields(const JsonValue& object, Report& report) : object_(object), report_(report) {}
  // Member `key` of `parent`. An absent member has no fields; a member that is no JSON object
  // refuses the object.
  Fields(const Fields& parent, std::string_view key);
  // Element `index` of the list `key` of `parent`.
  Fields(const Fields& parent, std::string_view key, std::size_t index, const JsonValue& element);
  // Paths are built from parents when they are needed, so a parent must not be a temporary.
  Fields(const Fields&&, std::string_view) = delete;
  Fields(const Fields&&, std::string_view, std::size_t, const JsonValue&) = delete;
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  std::optional<JsonValue> find(std::string_view key) const;  // nullopt: absent or null
  bool has(std::string_view key) const;                       // present, even if null

  // A wrong type or value refuses the object; then, and for an absent member, returns the fallback.
  std::string text(std::string_view key, std::string_view fallback = "") const;
  bool boolean(std::string_view key, bool fallback) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t smallest,
                                      std::int64_t largest) const;

  // Calls visit(index, element) for each element of a list.
  template <typename Visit>
  void each(std::string_view key, Visit visit) const {
    const auto list = find_list(key);
    if (!list) return;
    std::size_t index = 0;
    for (const auto& element : list->elements()) visit(index++, element);
  }

  // Reports a problem of member `key` (or of its element `index`) that costs the object.
  void refuse(std::string_view key, std::string message, std::size_t index = kNoIndex) const;
  // Reports a smaller problem; the message names the consequence.
  void note(Severity severity, std::string_view key, std::string message,
            std::size_t index = kNoIndex) const;

 private:
  std::optional<JsonValue> find_list(std::string_view key) const;
  std::string path() const;
  std::string path_of(std::string_view key, std::size_t index) const;

  std::optional<JsonValue> object_;
  Report& report_;
  const Fields* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = kNoIndex;
};

}  // namespace ipvsproxier::api

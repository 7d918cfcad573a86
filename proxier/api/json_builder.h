#pragma once

// JsonBuilder: builds a JSON tree from the events of a YAML or JSON reader, with limits for
// untrusted text, and reports repeated keys. A value; one thread at a time. Never throws because of
// its input.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "proxier/api/json_value.h"

namespace ipvsproxier::api {

// The number of repeated keys that are reported for one document.
inline constexpr std::size_t kMaxDuplicates = 20;

class JsonBuilder {
 public:
  using Json = nlohmann::json;

  // These return false if the nesting is too deep; the caller then stops reading.
  bool begin_object();
  bool begin_list();
  void key(std::string name);
  void value(Json value);
  // Ends the innermost object or list and returns it; the reference is valid until the next event.
  Json& end();

  std::size_t depth() const { return frames_.size(); }
  bool complete() const { return complete_; }
  bool in_object() const { return !frames_.empty() && frames_.back().value.is_object(); }
  // An object is open and its next value has no key yet.
  bool wants_key() const { return in_object() && !frames_.back().has_key; }

  Json take() { return std::move(root_); }
  // Paths ("spec.ports[0].port") of repeated keys; the last value counts.
  std::vector<std::string> take_duplicates() { return std::move(duplicates_); }

 private:
  struct Frame {
    Json value;
    std::string key;
    bool has_key = false;
  };

  bool begin(Json empty);
  Json& attach(Json value);
  std::string path() const;

  std::vector<Frame> frames_;
  std::vector<std::string> duplicates_;
  Json root_;
  bool complete_ = false;
};

// The tree as JSON on one line. A tree is built only by the reader of YAML and of odd JSON, to
// become text that JsonDocument reads.
std::string to_json_text(const nlohmann::json& tree);
void write_tree(DocumentWriter& out, const nlohmann::json& tree);

}  // namespace ipvsproxier::api

#pragma once

// JsonBuilder: reader events (YAML's or JSON's) -> one tree, with the bounds that text from
// outside needs and a note of every key that an object holds twice.
// A value; used by one thread at a time. Never throws on account of its input.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "proxier/api/json_tree.h"

namespace ipvsproxier::api {

// Duplicate keys that are noted of one document; further ones change nothing that a person does.
inline constexpr std::size_t kMaxDuplicates = 20;

class JsonBuilder {
 public:
  // Each answers false when the nesting is too deep; the caller stops reading then.
  bool begin_object();
  bool begin_list();
  void key(std::string name);
  void value(Json value);
  // Ends the innermost object or list and returns it in its place; valid until the next event.
  Json& end();

  std::size_t depth() const { return frames_.size(); }
  bool complete() const { return complete_; }
  bool in_object() const { return !frames_.empty() && frames_.back().value.is_object(); }
  // An object is open and its next value has no key yet.
  bool wants_key() const { return in_object() && !frames_.back().has_key; }

  Json take() { return std::move(root_); }
  // Paths ("spec.ports[0].port") of keys that came again; the last value counts.
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

}  // namespace ipvsproxier::api

#include "proxier/api/yaml.h"

#include <algorithm>
#include <istream>
#include <map>
#include <streambuf>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "proxier/api/json_builder.h"
#include "proxier/api/yaml_scalar.h"

namespace ipvsproxier::api {

namespace {

using Json = nlohmann::json;

// A streambuf over existing text, because yaml-cpp reads from an istream.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // an input buffer's get area is never written
    setg(begin, begin, begin + text.size());
  }
};

struct Extent {
  std::size_t values = 1;
  std::size_t depth = 0;
};

// Recursion is bounded: every value was built within kMaxDepth.
Extent extent_of(const Json& value) {
  Extent all;
  if (!value.is_structured()) return all;
  for (const auto& child : value) {
    const Extent extent = extent_of(child);
    all.values += extent.values;
    all.depth = std::max(all.depth, extent.depth);
  }
  ++all.depth;
  return all;
}

// Handlers stop the library by throwing; read_yaml() catches the exception.
[[noreturn]] void stop(const YAML::Mark& mark, const std::string& message) {
  throw YAML::ParserException(mark, message);
}

class Handler : public YAML::EventHandler {
 public:
  explicit Handler(std::vector<ParsedValue>& documents) : documents_(documents) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    // After a stray "," the library reports empty documents without end.
    if (mark.pos == start_) stop(mark, "a value cannot start with this character");
    start_ = mark.pos;
    builder_ = JsonBuilder();
    open_.clear();
    anchors_.clear();
    aliased_ = 0;
  }

  void OnDocumentEnd() override {
    if (!builder_.complete()) return;
    documents_.push_back(
        ParsedValue{.value = builder_.take(), .duplicates = builder_.take_duplicates()});
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (builder_.wants_key()) stop(mark, "a key is missing");
    add(anchor, nullptr);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) stop(mark, "an alias stands inside what it refers to");
    if (builder_.wants_key()) {
      if (!found->second.value.is_string()) stop(mark, "a key must be text");
      builder_.key(found->second.value.get<std::string>());
      return;
    }
    aliased_ += found->second.extent.values;
    if (aliased_ > kMaxAliasedValues) stop(mark, "aliases expand to too many values");
    if (builder_.depth() + found->second.extent.depth > kMaxDepth) stop(mark, "nested too deep");
    builder_.value(found->second.value);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool plain = tag == "?" || tag.empty();
    if (builder_.wants_key()) {
      if (anchor != 0) remember(anchor, value);
      if (plain && value == "<<") open_.back().merge = true;
      builder_.key(value);
      return;
    }
    if (plain) return add(anchor, resolve_plain_scalar(value));
    if (tag == "!") return add(anchor, value);
    auto tagged = resolve_tagged_scalar(tag, value);
    if (!tagged) stop(mark, "\"" + value + "\" does not fit the tag " + tag);
    add(anchor, *std::move(tagged));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (builder_.wants_key()) stop(mark, "a key must be text");
    if (!builder_.begin_list()) stop(mark, "nested too deep");
    open_.push_back(Open{.mark = mark, .anchor = anchor, .merge = false});
  }

  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (builder_.wants_key()) stop(mark, "a key must be text");
    if (!builder_.begin_object()) stop(mark, "nested too deep");
    open_.push_back(Open{.mark = mark, .anchor = anchor, .merge = false});
  }

  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    bool merge = false;  // the object holds a merge key
  };
  struct Anchored {
    Json value;
    Extent extent;
  };

  void remember(YAML::anchor_t anchor, const Json& value) {
    anchors_[anchor] = Anchored{.value = value, .extent = extent_of(value)};
  }

  void add(YAML::anchor_t anchor, Json value) {
    if (anchor != 0) remember(anchor, value);
    builder_.value(std::move(value));
  }

  void close() {
    const Open open = open_.back();
    open_.pop_back();
    Json& value = builder_.end();
    if (open.merge) merge(open.mark, value);
    if (open.anchor != 0) remember(open.anchor, value);
  }

  // The object's own keys win over merged ones, and earlier merged objects over later ones.
  static void merge(const YAML::Mark& mark, Json& object) {
    const Json merged = std::move(object["<<"]);
    object.erase("<<");
    const auto add_missing = [&](const Json& from) {
      if (!from.is_object()) stop(mark, "\"<<\" must refer to an object or a list of objects");
      object.insert(from.begin(), from.end());
    };
    if (!merged.is_array()) return add_missing(merged);
    for (const auto& from : merged) add_missing(from);
  }

  std::vector<ParsedValue>& documents_;
  int start_ = -1;  // position of the current document
  JsonBuilder builder_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t aliased_ = 0;
};

}  // namespace

std::optional<SyntaxError> read_yaml(std::string_view text, std::vector<ParsedValue>& documents) {
  ViewBuffer buffer(text);
  std::istream stream(&buffer);
  Handler handler(documents);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const YAML::Exception& exception) {
    const auto position = [](int from_zero) {
      return static_cast<std::size_t>(std::max(from_zero, 0)) + 1;
    };
    return SyntaxError{.line = position(exception.mark.line),
                       .column = position(exception.mark.column),
                       .message = exception.msg};
  }
  return std::nullopt;
}

}  // namespace ipvsproxier::api

#include "proxier/api/json_builder.h"

#include "proxier/api/document_writer.h"

namespace ipvsproxier::api {

bool JsonBuilder::begin(Json empty) {
  if (frames_.size() == kMaxDepth) return false;
  frames_.push_back(Frame{.value = std::move(empty), .key = {}, .has_key = false});
  return true;
}

bool JsonBuilder::begin_object() {
  return begin(Json::object());
}

bool JsonBuilder::begin_list() {
  return begin(Json::array());
}

void JsonBuilder::key(std::string name) {
  auto& frame = frames_.back();
  frame.key = std::move(name);
  frame.has_key = true;
  if (frame.value.contains(frame.key) && duplicates_.size() < kMaxDuplicates)
    duplicates_.push_back(path());
}

void JsonBuilder::value(Json value) {
  attach(std::move(value));
}

JsonBuilder::Json& JsonBuilder::end() {
  Json finished = std::move(frames_.back().value);
  frames_.pop_back();
  return attach(std::move(finished));
}

JsonBuilder::Json& JsonBuilder::attach(Json value) {
  if (frames_.empty()) {
    root_ = std::move(value);
    complete_ = true;
    return root_;
  }
  auto& frame = frames_.back();
  if (frame.value.is_array()) {
    frame.value.push_back(std::move(value));
    return frame.value.back();
  }
  frame.has_key = false;
  return frame.value[frame.key] = std::move(value);
}

std::string JsonBuilder::path() const {
  std::string text;
  for (const auto& frame : frames_) {
    if (frame.value.is_array()) {
      text += "[" + std::to_string(frame.value.size()) + "]";
    } else {
      if (!text.empty()) text += '.';
      text += frame.key;
    }
  }
  return text;
}

void write_tree(DocumentWriter& out, const nlohmann::json& tree) {
  using Kind = nlohmann::json::value_t;
  switch (tree.type()) {
    case Kind::object:
      return out.object([&] {
        for (const auto& [key, member] : tree.items()) {
          out.key(key);
          write_tree(out, member);
        }
      });
    case Kind::array:
      return out.list(tree, [&](const nlohmann::json& one) { write_tree(out, one); });
    case Kind::string:
      return out.value(tree.get_ref<const std::string&>());
    case Kind::boolean:
      return out.value(tree.get<bool>());
    case Kind::number_integer:
      return out.value(tree.get<std::int64_t>());
    case Kind::number_unsigned:
      return out.value(tree.get<std::uint64_t>());
    case Kind::number_float:
      return out.value(tree.get<double>());
    case Kind::null:
    case Kind::binary:
    case Kind::discarded:
      break;
  }
  out.value(nullptr);
}

std::string to_json_text(const nlohmann::json& tree) {
  JsonWriter out;
  write_tree(out, tree);
  return out.take();
}

}  // namespace ipvsproxier::api

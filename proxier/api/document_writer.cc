#include "proxier/api/document_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>
#include <yaml-cpp/null.h>
#include <nlohmann/json.hpp>

#include "proxier/api/visible_text.h"
#include "proxier/api/yaml_scalar.h"

namespace ipvsproxier::api {

namespace {

// Escapes and digits are those of nlohmann-json, which throws on invalid UTF-8 unless told
// otherwise.
std::string spelled(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_quoted(std::string& text, std::string_view value) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (std::ranges::all_of(value, is_plain))
    text.append(1, '"').append(value).append(1, '"');
  else
    text += spelled(value);
}

}  // namespace

void DocumentWriter::value(double value) {
  word(spelled(value));
}

std::string json_quoted(std::string_view text) {
  std::string quoted;
  append_quoted(quoted, text);
  return quoted;
}

// --- JSON

void JsonWriter::open(char bracket) {
  begin_value();
  text_ += bracket;
  brackets_ += bracket;
  empty_ = true;
}

void JsonWriter::close() {
  const bool had_lines = has_lines();
  const char bracket = brackets_.back() == '{' ? '}' : ']';
  brackets_.pop_back();
  if (!std::exchange(empty_, false) && had_lines) new_line();
  text_ += bracket;
}

void JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(text_, name);
  text_ += has_lines() ? ": " : ":";
  after_key_ = true;
}

void JsonWriter::text(std::string_view value) {
  begin_value();
  append_quoted(text_, value);
}

void JsonWriter::word(std::string_view json) {
  begin_value();
  text_ += json;
}

std::string JsonWriter::take() {
  return std::exchange(text_, "");
}

void JsonWriter::move_to(std::string& end) {
  end += text_;
  text_.clear();
}

void JsonWriter::begin_value() {
  if (!std::exchange(after_key_, false) && !brackets_.empty()) separate();
}

void JsonWriter::separate() {
  if (!std::exchange(empty_, false)) text_ += ',';
  if (has_lines()) new_line();
}

// --- YAML

struct YamlWriter::Emitter {
  YAML::Emitter out;
  std::string brackets;  // that are open, "{["
  bool waiting = false;  // the innermost one is not written yet: it may turn out to be empty

  void open(char bracket) {
    begin();
    brackets += bracket;
    waiting = true;
  }

  // Called before anything that follows an opening bracket.
  void begin() {
    if (!std::exchange(waiting, false)) return;
    if (brackets.back() == '{')
      out << YAML::BeginMap;
    else
      out << YAML::BeginSeq;
  }

  void close() {
    if (waiting) out << YAML::Flow;  // "{}", "[]"
    begin();
    if (brackets.back() == '{')
      out << YAML::EndMap;
    else
      out << YAML::EndSeq;
    brackets.pop_back();
  }

  void write(const std::string& text) {
    // The library does not quote these marks, which begin and end documents.
    const bool is_mark = text.rfind("---", 0) == 0 || text.rfind("...", 0) == 0;
    // Nor does it quote invalid UTF-8 and invisible characters.
    const bool is_plain = resolve_plain_scalar(text).is_string() && visible_lines(text) == text;
    if (is_mark || !is_plain) out << YAML::DoubleQuoted;
    out << text;
  }
};

YamlWriter::YamlWriter() : emitter_(std::make_unique<Emitter>()) {
  emitter_->out.SetNullFormat(YAML::LowerNull);
}

YamlWriter::~YamlWriter() = default;

void YamlWriter::open_object() {
  emitter_->open('{');
}

void YamlWriter::open_list() {
  emitter_->open('[');
}

void YamlWriter::close() {
  emitter_->close();
}

void YamlWriter::key(std::string_view name) {
  emitter_->begin();
  emitter_->out << YAML::Key;
  emitter_->write(std::string(name));
  emitter_->out << YAML::Value;
}

void YamlWriter::text(std::string_view value) {
  emitter_->begin();
  emitter_->write(std::string(value));
}

void YamlWriter::word(std::string_view json) {
  emitter_->begin();
  if (json == "null")
    emitter_->out << YAML::Null;  // written as text, the library would quote it
  else
    emitter_->out << std::string(json);
}

std::string YamlWriter::take() const {
  // Inside quotes "\u202e" stands for the character.
  return visible_yaml({emitter_->out.c_str(), emitter_->out.size()}) + "\n";
}

}  // namespace ipvsproxier::api

#pragma once

// JsonText: writes JSON directly as text, without a tree, indented by two blanks for each level. A
// value; any thread.

#include <concepts>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::inspect {

// Appends a quoted text; replaces invalid UTF-8.
void append_json_text(std::string& text, std::string_view value);

// The caller must use keys in objects and no keys in lists.
class JsonText {
 public:
  // Sets the text to append to.
  void write_to(std::string& text) { text_ = &text; }

  // '{' or '['.
  void open(char bracket) {
    begin_value();
    *text_ += bracket;
    brackets_ += bracket;
    empty_ = true;
  }
  void open(std::string_view key, char bracket) {
    begin_member(key);
    *text_ += bracket;
    brackets_ += bracket;
    empty_ = true;
  }
  void close() {
    const char bracket = brackets_.back() == '{' ? '}' : ']';
    brackets_.pop_back();
    if (!std::exchange(empty_, false)) new_line();
    *text_ += bracket;
  }

  void add(std::string_view key, bool value) {
    begin_member(key);
    *text_ += value ? "true" : "false";
  }
  void add(std::string_view key, std::string_view value) {
    begin_member(key);
    append_json_text(*text_, value);
  }
  template <std::unsigned_integral T>
  void add(std::string_view key, T value) requires(!std::same_as<T, bool>) {
    begin_member(key);
    fmt::format_to(std::back_inserter(*text_), "{}", value);
  }

 private:
  void new_line() { text_->append(1, '\n').append(2 * brackets_.size(), ' '); }
  void begin_value() {
    if (brackets_.empty()) return;
    if (!std::exchange(empty_, false)) *text_ += ',';
    new_line();
  }
  void begin_member(std::string_view key) {
    begin_value();
    text_->append(1, '"').append(key).append("\": ");
  }

  std::string* text_ = nullptr;
  std::string brackets_;  // open brackets
  bool empty_ = false;    // whether the innermost one is still empty
};

}  // namespace ipvsproxier::inspect

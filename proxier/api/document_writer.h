#pragma once

// DocumentWriter: how every JSON and YAML text of the project is written. A document is described
// once, as calls; JsonWriter and YamlWriter turn the same calls into text:
//
//   out.object([&] {
//     out.member("name", service.name);
//     out.list("ports", service.ports, [&](const auto& port) { out.value(port.number); });
//   });
//
// Members appear in the order of the calls. Invalid UTF-8 in texts becomes U+FFFD. Values; each
// belongs to one thread. Nothing here fails or throws because of a text.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ipvsproxier::api {

class DocumentWriter {
 public:
  virtual ~DocumentWriter() = default;

  // The events. In an object each value follows its key; in a list there are no keys.
  virtual void open_object() = 0;
  virtual void open_list() = 0;
  virtual void close() = 0;  // the innermost open object or list
  virtual void key(std::string_view name) = 0;
  virtual void text(std::string_view value) = 0;
  // A number, true, false or null as JSON spells it; YAML spells them alike.
  virtual void word(std::string_view json) = 0;

  void value(std::string_view value) { text(value); }
  void value(std::nullptr_t) { word("null"); }
  void value(double value);  // null for infinities and NaN
  template <std::same_as<bool> T>
  void value(T value) {
    word(value ? "true" : "false");
  }
  template <std::integral T>
  void value(T value) requires(!std::same_as<T, bool>) {
    const fmt::format_int digits(value);
    word({digits.data(), digits.size()});
  }
  // A list.
  template <std::ranges::input_range T>
  void value(const T& values) requires(!std::convertible_to<const T&, std::string_view>) {
    open_list();
    for (const auto& one : values) value(one);
    close();
  }

  template <typename T>
  void member(std::string_view name, const T& member_value) {
    key(name);
    value(member_value);
  }

  // fill() makes the calls for what is inside; each(element) those for one element of `values`.
  template <typename Fill>
  void object(Fill fill) {
    open_object();
    fill();
    close();
  }
  template <typename Fill>
  void object(std::string_view name, Fill fill) {
    key(name);
    object(fill);
  }
  template <typename Values, typename Each>
  void list(const Values& values, Each each) {
    open_list();
    for (const auto& one : values) each(one);
    close();
  }
  template <typename Values, typename Each>
  void list(std::string_view name, const Values& values, Each each) {
    key(name);
    list(values, each);
  }
};

class JsonWriter final : public DocumentWriter {
 public:
  static constexpr std::size_t kOneLine = 0;
  static constexpr std::size_t kIndented = std::numeric_limits<std::size_t>::max();

  // The members of the outermost `levels` of objects and lists have a line each, indented by two
  // blanks for each level; everything deeper stays on its line.
  explicit JsonWriter(std::size_t levels = kOneLine) : levels_(levels) {}

  void open_object() override { open('{'); }
  void open_list() override { open('['); }
  void close() override;
  void key(std::string_view name) override;
  void text(std::string_view value) override;
  void word(std::string_view json) override;
  // A value that is JSON already.
  void splice(std::string_view json) { word(json); }

  std::size_t size() const { return text_.size(); }
  // Moves out what was written so far; the document may go on.
  std::string take();
  void move_to(std::string& end);

 private:
  void open(char bracket);
  bool has_lines() const { return brackets_.size() <= levels_; }
  void new_line() { text_.append(1, '\n').append(2 * brackets_.size(), ' '); }
  void begin_value();
  void separate();

  std::size_t levels_;
  std::string text_;
  std::string brackets_;    // that are open
  bool empty_ = false;      // nothing is in the innermost one yet
  bool after_key_ = false;  // the next value belongs to the key before it
};

// Texts that mean something else to Kubernetes tools without quotes (yaml_scalar.h) are quoted.
class YamlWriter final : public DocumentWriter {
 public:
  YamlWriter();
  YamlWriter(const YamlWriter&) = delete;
  YamlWriter& operator=(const YamlWriter&) = delete;
  ~YamlWriter() override;

  void open_object() override;
  void open_list() override;
  void close() override;
  void key(std::string_view name) override;
  void text(std::string_view value) override;
  void word(std::string_view json) override;

  // The whole document, which ends in a newline.
  std::string take() const;

 private:
  struct Emitter;
  std::unique_ptr<Emitter> emitter_;
};

// A text as a JSON string with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace ipvsproxier::api

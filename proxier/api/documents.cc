#include "proxier/api/documents.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/json_builder.h"
#include "proxier/api/yaml.h"

namespace ipvsproxier::api {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kBlanks = " \t\r\n";

// Passes the SAX events of the JSON reader to a JsonBuilder. The reader does not throw in this
// mode.
class JsonHandler : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(builder_.begin_object()); }
  bool start_array(std::size_t) override { return begin(builder_.begin_list()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    builder_.key(std::move(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const Json::exception& exception) override {
    position_ = position;
    message_ = exception.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    const auto start = message_.find("syntax error");
    if (start != std::string::npos) message_.erase(0, start);
    return false;
  }

  bool complete() const { return builder_.complete(); }
  // The number of bytes that the reader had read at the error (0: unknown), and its message.
  std::size_t position() const { return position_; }
  const std::string& message() const { return message_; }

  ParsedValue take() {
    return ParsedValue{.value = builder_.take(), .duplicates = builder_.take_duplicates()};
  }

 private:
  bool add(Json value) {
    builder_.value(std::move(value));
    return true;
  }
  bool begin(bool begun) {
    if (!begun) message_ = fmt::format("more than {} levels deep", kMaxDepth);
    return begun;
  }
  bool end() {
    builder_.end();
    return true;
  }

  JsonBuilder builder_;
  std::size_t position_ = 0;
  std::string message_;
};

SyntaxError error_at(std::string_view text, std::size_t offset, std::string message) {
  const auto before = text.substr(0, std::min(offset, text.size()));
  const auto last_break = before.rfind('\n');
  const std::size_t start = last_break == std::string_view::npos ? 0 : last_break + 1;
  return SyntaxError{
      .line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1,
      .column = before.size() - start + 1,
      .message = std::move(message)};
}

std::optional<SyntaxError> read_json(std::string_view text, std::vector<ParsedValue>& values) {
  std::size_t start = 0;
  while (true) {
    JsonHandler handler;
    const auto rest = text.substr(start);
    if (Json::sax_parse(rest.begin(), rest.end(), &handler)) {
      values.push_back(handler.take());
      return std::nullopt;
    }
    const std::size_t error_offset = start + (handler.position() == 0 ? 0 : handler.position() - 1);
    // A bracket after a finished value starts the next value: kubectl prints such streams.
    const bool next_value = handler.complete() && error_offset < text.size() &&
                            (text[error_offset] == '{' || text[error_offset] == '[');
    if (!next_value)
      return handler.position() == 0 ? SyntaxError{.message = handler.message()}
                                     : error_at(text, error_offset, handler.message());
    values.push_back(handler.take());
    start = error_offset;
  }
}

// Offset of the first control character that YAML forbids; npos: none.
std::size_t find_control_character(std::string_view text) {
  const auto is_control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
  };
  const auto found = std::find_if(text.begin(), text.end(), is_control);
  return found == text.end() ? std::string_view::npos
                             : static_cast<std::size_t>(found - text.begin());
}

// yaml-cpp treats text with this byte order mark as UTF-16.
bool is_utf16(std::string_view text) {
  return text.substr(0, 2) == "\xff\xfe" || text.substr(0, 2) == "\xfe\xff";
}

std::optional<SyntaxError> read_yaml_text(std::string_view text, std::vector<ParsedValue>& values) {
  const auto control = is_utf16(text) ? std::string_view::npos : find_control_character(text);
  if (control == std::string_view::npos) return read_yaml(text, values);
  return error_at(text, control,
                  fmt::format("a control character ({:#04x}); YAML is text in UTF-8",
                              static_cast<unsigned>(static_cast<unsigned char>(text[control]))));
}

struct Part {
  std::string_view text;
  std::size_t lines_before = 0;
};

bool is_separator(std::string_view line) {
  return line.substr(0, 3) == "---" &&
         (line.size() == 3 || kBlanks.find(line[3]) != std::string_view::npos);
}

// The separator line belongs to the part that it opens: "--- !tag" and "--- value" are YAML.
std::vector<Part> split(std::string_view text) {
  std::vector<Part> parts;
  std::size_t part_start = 0;
  std::size_t part_line = 0;
  std::size_t line = 0;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const auto line_end = std::min(text.find('\n', at), text.size());
    if (is_separator(text.substr(at, line_end - at)) && at > part_start) {
      parts.push_back(
          Part{.text = text.substr(part_start, at - part_start), .lines_before = part_line});
      part_start = at;
      part_line = line;
    }
    at = line_end + 1;
  }
  parts.push_back(Part{.text = text.substr(part_start), .lines_before = part_line});
  return parts;
}

// The part without a bare separator line, so that JSON after it is recognized.
Part without_separator(Part part) {
  const auto line = part.text.substr(0, part.text.find('\n'));
  if (!is_separator(line) || line.find_first_not_of(kBlanks, 3) != std::string_view::npos)
    return part;
  part.text.remove_prefix(std::min(line.size() + 1, part.text.size()));
  ++part.lines_before;
  return part;
}

// Collects the documents of one text.
class Collector {
 public:
  explicit Collector(const std::string& origin) : origin_(origin) {}

  void read(const Part& part) {
    const auto first = part.text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return;
    const bool is_json = part.text[first] == '{' || part.text[first] == '[';
    if (is_json && read_whole(part.text)) return;
    std::vector<ParsedValue> values;
    const auto error = is_json ? read_json(part.text, values) : read_yaml_text(part.text, values);
    for (auto& parsed : values) add(parsed);
    if (error) add(part, *error);
  }

  Documents take() { return std::move(result_); }

 private:
  // The usual case: the whole text is one valid value without repeated keys.
  bool read_whole(std::string_view text) {
    auto json = JsonDocument::parse(text);
    if (!json || has_duplicate_keys(json->root())) return false;
    result_.documents.push_back(
        Document{.origin = next_origin(), .json = *std::move(json), .duplicates = {}});
    return true;
  }

  void add(ParsedValue& parsed) {
    if (parsed.value.is_null()) return;
    auto json = JsonDocument::parse(to_json_text(parsed.value));
    parsed.value = nullptr;
    if (!json) return add(json.error().where);
    result_.documents.push_back(Document{.origin = next_origin(),
                                         .json = *std::move(json),
                                         .duplicates = std::move(parsed.duplicates)});
  }

  void add(const Part& part, const SyntaxError& error) {
    add(error.line == 0 ? error.message
                        : fmt::format("line {}, column {}: {}", part.lines_before + error.line,
                                      error.column, error.message));
  }

  void add(std::string message) {
    result_.problems.push_back(Problem{
        .severity = Severity::error, .origin = next_origin(), .message = std::move(message)});
  }

  std::string next_origin() {
    return ++number_ == 1 ? origin_ : fmt::format("{}#{}", origin_, number_);
  }

  const std::string& origin_;
  std::size_t number_ = 0;
  Documents result_;
};

}  // namespace

Documents parse_documents(std::string_view text, const std::string& origin) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    text.remove_prefix(kByteOrderMark.size());
  Collector collector(origin);
  for (const auto& part : split(text)) collector.read(without_separator(part));
  return collector.take();
}

}  // namespace ipvsproxier::api

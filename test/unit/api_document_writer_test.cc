#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/document_writer.h"
#include "proxier/api/json_builder.h"
#include "proxier/api/visible_text.h"
#include "proxier/api/yaml.h"

namespace ipvsproxier::api {
namespace {

nlohmann::json read_back(const std::string& text) {
  std::vector<ParsedValue> documents;
  const auto error = read_yaml(text, documents);
  CAPTURE(text);
  REQUIRE_FALSE(error);
  REQUIRE(documents.size() == 1);
  return documents[0].value;
}

std::string write_yaml(const nlohmann::json& value) {
  YamlWriter out;
  write_tree(out, value);
  return out.take();
}

// Lists and objects, empty and not, at several levels.
void write_all_kinds(DocumentWriter& out) {
  out.object([&] {
    out.member("flag", true);
    out.list("rows", std::array{1, 2},
             [&](int row) { out.object([&] { out.member("row", row); }); });
    out.object("none", [] {});
    out.member("texts", std::vector<std::string>());
    out.key("\"quoted\"");
    out.value(nullptr);
    out.member("half", 0.5);
    out.member("whole", 2.0);
    out.member("most", std::numeric_limits<std::uint64_t>::max());
    out.member("least", std::numeric_limits<std::int64_t>::min());
  });
}

TEST_CASE("the same calls become JSON on one line, on lines down to a level, and YAML") {
  const auto json_of = [](std::size_t levels) {
    JsonWriter out(levels);
    write_all_kinds(out);
    return out.take();
  };
  const std::string numbers =
      R"("half":0.5,"whole":2.0,"most":18446744073709551615,"least":-9223372036854775808})";
  const std::string line =
      R"({"flag":true,"rows":[{"row":1},{"row":2}],"none":{},"texts":[],"\"quoted\"":null,)" +
      numbers;
  CHECK(json_of(JsonWriter::kOneLine) == line);
  const auto tree = nlohmann::ordered_json::parse(line);
  CHECK(json_of(JsonWriter::kIndented) == tree.dump(2));
  const std::string lines =
      "{\n  \"flag\": true,\n  \"rows\": [\n    {\"row\":1},\n    {\"row\":2}\n  ],\n  \"none\": "
      "{}";
  CHECK(json_of(2).substr(0, lines.size()) == lines);
  YamlWriter yaml;
  write_all_kinds(yaml);
  CHECK(yaml.take() ==
        "flag: true\nrows:\n  - row: 1\n  - row: 2\nnone: {}\ntexts: []\n\"\\\"quoted\\\"\": "
        "null\nhalf: "
        "0.5\nwhole: 2.0\nmost: 18446744073709551615\nleast: -9223372036854775808\n");
}

TEST_CASE("JSON that is taken in parts is one document") {
  JsonWriter out(JsonWriter::kIndented);
  std::string text;
  out.open_list();
  out.move_to(text);
  for (const std::string part : {"a", "b"}) {
    out.value(part);
    out.move_to(text);
  }
  out.splice("{}");
  out.close();
  out.move_to(text);
  CHECK(text == "[\n  \"a\",\n  \"b\",\n  {}\n]");
}

TEST_CASE("values are written as YAML") {
  CHECK(write_yaml({{"b", 1}, {"a", {{"c", {"x", "z"}}, {"d", nullptr}}}, {"e", 0.5}}) ==
        "a:\n  c:\n    - x\n    - z\n  d: null\nb: 1\ne: 0.5\n");
  CHECK(write_yaml(nlohmann::json::object()) == "{}\n");
  CHECK(write_yaml({{"a", nlohmann::json::array()}, {"b", nlohmann::json::object()}}) ==
        "a: []\nb: {}\n");
}

TEST_CASE("texts stay texts") {
  for (const std::string text :
       {"",           "0",    "0x1f", "1_000",  "1e3",    ".5",     "-7",         "null",
        "~",          "true", "on",   "No",     "y",      ".inf",   ".nan",       "12:30:45",
        "2001-01-01", "- a",  "a: b", "a #b",   "#",      "&a",     "*a",         "!a",
        "%a",         "@a",   "`a",   "'a'",    "\"a\"",  "{a}",    "[a]",        "[::]:10256",
        "::",         "?",    "|",    ">",      " a ",    "a\nb",   "\n",         "\t",
        "a\tb",       "\x01", "\x7f", "\u0085", "\u00e4", "\u2028", "\U0001F600", "<<",
        "=",          "---",  "...",  "--- a",  "a,b",    "\\",     "C:\\x"}) {
    CAPTURE(text);
    const nlohmann::json value = {{"key", text}, {"list", {text}}, {text + "k", 1}};
    CHECK(read_back(write_yaml(value)) == value);
  }
}

TEST_CASE("what cannot be seen is escaped, what is no UTF-8 replaced") {
  const std::string text = "\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\r\n";
  const nlohmann::json value = {{"a", text}, {text, 1}};
  const auto yaml = write_yaml(value);
  CHECK(yaml == visible_lines(yaml));
  CHECK(std::count(yaml.begin(), yaml.end(), '\n') == 2);
  CHECK(read_back(yaml) == value);
  CHECK(read_back(write_yaml({{"a", "M\xfcnchen"}})) ==
        nlohmann::json{{"a", "M\xef\xbf\xbdnchen"}});
}

// A random value of all kinds.
nlohmann::json random_value(std::mt19937& random, int depth) {
  const auto pick = [&random](int below) { return static_cast<int>(random() % unsigned(below)); };
  const auto text = [&] {
    constexpr std::string_view kLetters = "ab01 :-#'\"{}[],&*!|>%@`\n\t\\~.=<?_eEx";
    std::string result;
    for (int i = pick(6); i > 0; --i) result += kLetters[random() % kLetters.size()];
    return result;
  };
  nlohmann::json value;
  switch (pick(depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return pick(2) == 0;
    case 2:
      return pick(2000) - 1000;
    case 3:
      return (pick(2000) - 1000) / 8.0 + 0.0625;
    case 4:
      return text();
    case 5:
      value = nlohmann::json::array();
      for (int i = pick(4); i > 0; --i) value.push_back(random_value(random, depth - 1));
      return value;
    default:
      value = nlohmann::json::object();
      for (int i = pick(4); i > 0; --i) value["k" + text()] = random_value(random, depth - 1);
      return value;
  }
}

TEST_CASE("random values are read as they were written") {
  std::mt19937 random(Catch::rngSeed());
  for (int i = 0; i < 3000; ++i) {
    const nlohmann::json value = {{"value", random_value(random, 4)}};
    REQUIRE(read_back(write_yaml(value)) == value);
  }
}

}  // namespace
}  // namespace ipvsproxier::api

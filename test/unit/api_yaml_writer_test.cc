#include <algorithm>
#include <random>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/visible_text.h"
#include "proxier/api/yaml.h"
#include "proxier/api/yaml_writer.h"

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

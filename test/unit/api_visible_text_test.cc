#include "proxier/api/visible_text.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/document_writer.h"
#include "proxier/api/json_builder.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

TEST_CASE("visible text: what can be seen stays") {
  for (const std::string text : {"", "shop/web:http", "a \\n b \\", "gr\xc3\xbc\xc3\x9f",
                                 "\xe6\x9c\xac", "\xf0\x9f\x90\x9f", "\xc2\xa0"}) {
    CHECK(visible(text) == text);
    CHECK(visible_lines(text + "\n" + text) == text + "\n" + text);
  }
}

TEST_CASE("visible text: control characters and what cannot be seen stand there as JSON has them") {
  for (const auto& [text, shown] : Texts{{"web\x1b[2J", "web\\u001b[2J"},
                                         {"a\nb\rc\td", "a\\nb\\rc\\td"},
                                         {std::string("a\0b", 3), "a\\u0000b"},
                                         {"\x7f", "\\u007f"},
                                         {"\xc2\x80\xc2\x9b\xc2\x9f", "\\u0080\\u009b\\u009f"},
                                         {"\xe2\x80\xae", "\\u202e"},
                                         {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},
                                         {"\xe2\x81\xa6\xe2\x80\x8b", "\\u2066\\u200b"},
                                         {"\xef\xbb\xbf", "\\ufeff"},
                                         {"\xf3\xa0\x81\x81", "\\udb40\\udc41"}}) {
    CHECK(visible(text) == shown);
    CHECK(visible(shown) == shown);
  }
  CHECK(visible_lines("a\x1b\nb\r\n") == "a\\u001b\nb\\r\n");
}

TEST_CASE("visible text: bytes that are no UTF-8 are named") {
  for (const auto& [text, shown] : Texts{{"M\xfcnchen", "M\\xfcnchen"},
                                         {"\x9b", "\\x9b"},
                                         {"a\xc3", "a\\xc3"},
                                         {"a\xe2\x82", "a\\xe2\\x82"},
                                         {"\xc0\x80", "\\xc0\\x80"},
                                         {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                                         {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
                                         {"\xff\xfe", "\\xff\\xfe"},
                                         {"\xc3(", "\\xc3("}})
    CHECK(visible(text) == shown);
}

TEST_CASE("visible text: no two bytes give anything that acts") {
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second)};
      const auto shown = visible(text);
      for (const char c : shown) REQUIRE((static_cast<unsigned char>(c) >= ' ' && c != '\x7f'));
      REQUIRE(visible(shown) == shown);
      // It is UTF-8.
      REQUIRE(nlohmann::json::parse(nlohmann::json(shown).dump()) == shown);
    }
}

TEST_CASE("visible text: text is not cut in the middle of a character") {
  const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f";  // 1, 2, 3 and 4 bytes
  const std::vector<std::size_t> heads = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  const std::vector<std::size_t> tails = {0, 0, 0, 0, 4, 4, 4, 7, 7, 9, 10, 10};
  for (std::size_t most = 0; most < heads.size(); ++most) {
    CHECK(head_of(text, most) == text.substr(0, heads[most]));
    CHECK(tail_of(text, most) == text.substr(text.size() - tails[most]));
  }
  const std::string none(20, '\x80');
  CHECK(head_of(none, 10).size() == 10);
  CHECK(tail_of(none, 10).size() == 10);
}

TEST_CASE("visible text: a problem is one line, whatever the object is called") {
  CHECK(
      to_string(Problem{
          .origin = "a.yaml", .object = "Service shop/web\nerror: forged", .message = "\x1b[2J"}) ==
      "a.yaml: Service shop/web\\nerror: forged: \\u001b[2J");
}

TEST_CASE("JSON text: what is no UTF-8 is replaced and nothing is thrown") {
  const nlohmann::json value{{"text\xfc", "M\xfcnchen"}};
  CHECK(to_json_text(value) == "{\"text\xef\xbf\xbd\":\"M\xef\xbf\xbdnchen\"}");
  JsonWriter out;
  out.object([&] {
    out.member("b", "\xff");
    out.member("a", 1);
  });
  CHECK(out.take() == "{\"b\":\"\xef\xbf\xbd\",\"a\":1}");
  JsonWriter indented(JsonWriter::kIndented);
  indented.object([&] { indented.member("a", 1); });
  CHECK(indented.take() == "{\n  \"a\": 1\n}");
  CHECK(json_quoted("a\"\n\xff") == "\"a\\\"\\n\xef\xbf\xbd\"");
}

std::string indented_text(const nlohmann::json& value) {
  JsonWriter out(JsonWriter::kIndented);
  write_tree(out, value);
  return out.take();
}

TEST_CASE("JSON text: made visible it says the same") {
  const nlohmann::json value{
      {"zone", "\x7f\xc2\x9b\x1b[2J\xe2\x80\xae\n\xf0\x9f\x90\x9f\xf3\xa0\x81\x81"}};
  const auto shown = visible_lines(indented_text(value));
  CHECK(shown ==
        "{\n  \"zone\": \"\\u007f\\u009b\\u001b[2J\\u202e\\n\xf0\x9f\x90\x9f\\udb40\\udc41\"\n}");
  CHECK(nlohmann::json::parse(shown) == value);
}

}  // namespace
}  // namespace ipvsproxier::api

#include <catch2/catch.hpp>

#include "proxier/api/documents.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::api {
namespace {

using test::lines_of;
using Lines = std::vector<std::string>;

std::string dump(const Document& document) {
  return to_json_text(document.json.root());
}

// The documents as "origin json" lines.
Lines documents_of(const std::string& text) {
  const auto parsed = parse_documents(text, "f");
  CHECK(lines_of(parsed.problems) == Lines{});
  Lines lines;
  for (const auto& document : parsed.documents)
    lines.push_back(document.origin + " " + dump(document));
  return lines;
}

Lines errors_of(const std::string& text) {
  return lines_of(parse_documents(text, "f").problems);
}

TEST_CASE("documents are cut, numbered, and empty ones skipped") {
  CHECK(documents_of("") == Lines{});
  CHECK(documents_of("%YAML 1.2\n---\na: 1\n") == Lines{"f {\"a\":1}"});
  CHECK(documents_of("# only a remark\n---\n---\n \n") == Lines{});
  CHECK(documents_of("a: 1\n---\n# nothing\n---\nb: 2\n...\n---\nc: 3") ==
        Lines{"f {\"a\":1}", "f#2 {\"b\":2}", "f#3 {\"c\":3}"});
  CHECK(documents_of("\xef\xbb\xbf---\r\na: 1\r\n---\r\nb: x\r\n") ==
        Lines{"f {\"a\":1}", "f#2 {\"b\":\"x\"}"});
  CHECK(documents_of("--- {a: 1}\n--- text\n") == Lines{"f {\"a\":1}", "f#2 \"text\""});
  CHECK(documents_of("a: |\n  ---x\n  b\n") == Lines{"f {\"a\":\"---x\\nb\\n\"}"});
}

TEST_CASE("JSON is recognised by its first character, also several in a row") {
  CHECK(documents_of(" \n {\"a\": [1, -2, 1.5, null, true, \"010\"]}") ==
        Lines{"f {\"a\":[1,-2,1.5,null,true,\"010\"]}"});
  CHECK(documents_of("{\"a\":1}{\"b\":2}\n[3]\n") ==
        Lines{"f {\"a\":1}", "f#2 {\"b\":2}", "f#3 [3]"});
  CHECK(documents_of("---\n{\"a\":1}\n---\nb: 2\n") == Lines{"f {\"a\":1}", "f#2 {\"b\":2}"});
}

TEST_CASE("YAML means what it means to kubectl") {
  CHECK(
      documents_of("a: 'on'\nb: \"8\"\nc: on\nd: 8\ne: !!str 8\nf:\n8: x\n") ==
      Lines{"f {\"8\":\"x\",\"a\":\"on\",\"b\":\"8\",\"c\":true,\"d\":8,\"e\":\"8\",\"f\":null}"});
  CHECK(documents_of("a: &x {p: 1}\nb: *x\nc: &y [*x, 2]\nd: *y\n") ==
        Lines{"f {\"a\":{\"p\":1},\"b\":{\"p\":1},\"c\":[{\"p\":1},2],\"d\":[{\"p\":1},2]}"});
}

TEST_CASE("merge keys add what the object lacks") {
  CHECK(documents_of("base: &b {p: 1, q: 2}\na:\n  <<: *b\n  q: 3\n") ==
        Lines{"f {\"a\":{\"p\":1,\"q\":3},\"base\":{\"p\":1,\"q\":2}}"});
  CHECK(documents_of("- &b {p: 1}\n- &c {p: 2, r: 3}\n- {<<: [*b, *c]}\n") ==
        Lines{"f [{\"p\":1},{\"p\":2,\"r\":3},{\"p\":1,\"r\":3}]"});
  CHECK(documents_of("{\"<<\": 1}") == Lines{"f {\"<<\":1}"});
  CHECK(documents_of("'<<': 1") == Lines{"f {\"<<\":1}"});
  CHECK(errors_of("a:\n  <<: 1\n") ==
        Lines{"error: f: line 2, column 3: \"<<\" must refer to an object or a list of objects"});
}

TEST_CASE("a broken document is located and costs the others nothing") {
  const auto parsed = parse_documents("a: 1\n---\nb: [1\n---\nc: 3\n---\n{\"d\": }\n", "f");
  REQUIRE(parsed.documents.size() == 2);
  CHECK(dump(parsed.documents[1]) == "{\"c\":3}");
  CHECK(parsed.documents[1].origin == "f#3");
  REQUIRE(parsed.problems.size() == 2);
  CHECK(lines_of(parsed.problems)[0] ==
        "error: f#2: line 4, column 1: end of sequence flow not found");
  CHECK(lines_of(parsed.problems)[1] ==
        "error: f#4: line 7, column 7: syntax error while parsing value - unexpected '}'; expected "
        "'[', '{', or a literal");
}

TEST_CASE("what cannot be read is named") {
  const auto [text, error] = GENERATE(table<std::string, std::string>({
      {"{\"a\": 1",
       "line 1, column 8: syntax error while parsing object - unexpected end of input; "
       "expected '}'"},
      {"{\"a\": 1} x",
       "line 1, column 10: syntax error while parsing value - invalid literal; last "
       "read: '1} x'; expected end of input"},
      {"a: b: c\n", "line 1, column 5: illegal map value"},
      {",a: 1\n", "line 1, column 1: a value cannot start with this character"},
      {"# first\n, 2\n", "line 2, column 1: a value cannot start with this character"},
      {"]\n", "line 1, column 1: illegal flow end"},
      {"a: *x\n", "line 1, column 4: the referenced anchor is not defined"},
      {"a: &x [*x]\n", "line 1, column 8: an alias stands inside what it refers to"},
      {"[1]: 2\n",
       "line 1, column 4: syntax error while parsing value - unexpected ':'; expected "
       "end of input"},
      {"? [1]\n: 2\n", "line 1, column 3: a key must be text"},
      {"a: !!int x\n", "line 1, column 4: \"x\" does not fit the tag tag:yaml.org,2002:int"},
  }));
  CAPTURE(text);
  CHECK(errors_of(text) == Lines{"error: f: " + error});
}

TEST_CASE("a control character is no end of the text") {
  const auto [text, error] = GENERATE(table<std::string, std::string>({
      {"a: 1\nb: \x04\nc: 2\n",
       "line 2, column 4: a control character (0x04); YAML is text in UTF-8"},
      {std::string("a: 1\n\0b: 2\n", 12),
       "line 2, column 1: a control character (0x00); YAML is text in UTF-8"},
      {"a: \"\x7f\"\n", "line 1, column 5: a control character (0x7f); YAML is text in UTF-8"},
      {std::string("a\0:\0 \0001\0\n\0", 10),
       "line 1, column 2: a control character (0x00); YAML is text in UTF-8"},
  }));
  CHECK(errors_of(text) == Lines{"error: f: " + error});
  CHECK(documents_of(std::string("\xff\xfe"
                                 "a\0:\0 \0001\0\n\0",
                                 12)) == Lines{"f {\"a\":1}"});
  CHECK(errors_of("a: 1\n---\nb: \x01\n") ==
        Lines{"error: f#2: line 3, column 4: a control character (0x01); YAML is text in UTF-8"});
}

TEST_CASE("tabs separate, and do not indent") {
  CHECK(documents_of("a:\t1\nb: [1,\t2]\n") == Lines{"f {\"a\":1,\"b\":[1,2]}"});
  CHECK(errors_of("a:\n\tb: 1\n").size() == 1);
  CHECK(errors_of("a:\n  b: 1\n\tc: 2\n").size() == 1);
}

TEST_CASE("keys that come twice are noted by path, the last counts") {
  const std::string text =
      GENERATE("a:\n- b: 1\n- b: 2\n  c: 3\n  b: 4\na2: 5\na2: 6\n",
               "{\"a\":[{\"b\":1},{\"b\":2,\"c\":3,\"b\":4}],\"a2\":5,\"a2\":6}");
  const auto parsed = parse_documents(text, "f");
  REQUIRE(parsed.documents.size() == 1);
  CHECK(parsed.documents[0].duplicates == Lines{"a[1].b", "a2"});
  CHECK(dump(parsed.documents[0]) == "{\"a\":[{\"b\":1},{\"b\":4,\"c\":3}],\"a2\":6}");
}

TEST_CASE("JSON numbers beyond 64 bits are fractions, too large ones are refused") {
  CHECK(documents_of("{\"a\": 99999999999999999999, \"b\": -9223372036854775808}") ==
        Lines{"f {\"a\":1e+20,\"b\":-9223372036854775808}"});
  CHECK(documents_of("{\"a\": 18446744073709551615, \"b\": 8.0}") ==
        Lines{"f {\"a\":18446744073709551615,\"b\":8.0}"});
  CHECK(errors_of("{\"a\": 1e999}") ==
        Lines{"error: f: line 1, column 11: [json.exception.out_of_range.406] number overflow "
              "parsing '1e999'"});
}

TEST_CASE("alias bombs and deep nesting are refused") {
  std::string bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const auto previous = "*l" + std::to_string(i - 1);
    bomb += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [" + previous;
    for (int k = 1; k < 10; ++k) bomb += ", " + previous;
    bomb += "]\n";
  }
  CHECK(errors_of(bomb) == Lines{"error: f: line 5, column 45: aliases expand to too many values"});

  CHECK(errors_of("{\"a\":" + std::string(2000, '[')).size() == 1);
  CHECK(errors_of("a: " + std::string(2000, '[')).size() == 1);
  CHECK(documents_of(std::string(100, '[') + std::string(100, ']')).size() == 1);
  CHECK(errors_of(std::string(101, '[') + std::string(101, ']')) ==
        Lines{"error: f: more than 100 levels deep"});

  // Each line nests what the line before nested: aliases must not get past the bound either.
  std::string ladder = "l0: &l0 [[[[[[[[[[1]]]]]]]]]]\n";
  for (int i = 1; i < 20; ++i)
    ladder += "l" + std::to_string(i) + ": &l" + std::to_string(i) + " [[[[[[[[[[*l" +
              std::to_string(i - 1) + "]]]]]]]]]]\n";
  REQUIRE(errors_of(ladder).size() == 1);
  CHECK(errors_of(ladder)[0].find("line 10, column 19: nested too deep") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::api

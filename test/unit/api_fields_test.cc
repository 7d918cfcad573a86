#include "proxier/api/fields.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "test/unit/problem_lines.h"

namespace ipvsproxier::api {
namespace {

using test::lines_of;
using Lines = std::vector<std::string>;

JsonDocument document_of(const std::string& text) {
  auto document = JsonDocument::parse(text);
  REQUIRE(document);
  return *std::move(document);
}

// Reads members a to i, each as another type.
void read_all(const Fields& fields) {
  CHECK(fields.text("a", "kept") == "kept");
  CHECK(fields.boolean("b", true));
  CHECK(fields.number("c", 2.5) == 2.5);
  CHECK_FALSE(fields.integer("d", 1, 9));
  CHECK(fields.texts("e") == Lines{"x"});
  CHECK_FALSE(fields.texts("f"));
  CHECK_FALSE(Fields(fields, "g").exists());
  fields.each("h", [](std::size_t, const JsonValue&) { FAIL("no list"); });
  std::size_t visited = 0;
  fields.each_object("i", [&](const Fields& entry) {
    ++visited;
    CHECK(entry.text("j").empty());
  });
  CHECK(visited == 1);
}

const std::string kWrong =
    R"({"a":4711,"b":4711,"c":"secret","d":4711,"e":["x",4711],"f":"secret","g":"secret",)"
    R"("h":true,"i":["secret",{"j":4711}]})";

TEST_CASE("a wrong value is reported with its place, and weighs what the report says") {
  const auto document = document_of(kWrong);
  Problems problems;
  Report report{.origin = "f", .problems = problems};
  SECTION("an error without further consequence") {
    read_all(Fields(document.root(), report));
    CHECK(lines_of(problems) == Lines{"error: f: a: must be text, not 4711",
                                      "error: f: b: must be true or false, not 4711",
                                      "error: f: c: must be a number, not \"secret\"",
                                      "error: f: d: must be a whole number from 1 to 9, not 4711",
                                      "error: f: e[1]: must be text, not 4711",
                                      "error: f: f: must be a list, not \"secret\"",
                                      "error: f: g: must be an object, not \"secret\"",
                                      "error: f: h: must be a list, not true",
                                      "error: f: i[0]: must be an object, not \"secret\"",
                                      "error: f: i[1].j: must be text, not 4711"});
    CHECK(report.refused);
  }
  SECTION("a warning that names the consequence") {
    report.severity = Severity::warning;
    report.consequence = "it has no effect";
    report.describe = [] { return "Node a"; };
    Fields(document.root(), report).boolean("b", false);
    CHECK(lines_of(problems) ==
          Lines{"warning: f: Node a: b: must be true or false, not 4711; it has no effect"});
    CHECK_FALSE(report.refused);
  }
  SECTION("where values may be secrets none is shown") {
    report.hides_values = true;
    read_all(Fields(document.root(), report));
    CHECK(problems.size() == 10);
    for (const auto& line : lines_of(problems)) {
      CAPTURE(line);
      CHECK(line.find("4711") == std::string::npos);
      CHECK(line.find("secret") == std::string::npos);
    }
    CHECK(lines_of(problems).front() == "error: f: a: must be text (in quotes), not a number");
  }
}

TEST_CASE("absent and null members are no problem, and a member that is none has no members") {
  Problems problems;
  Report report{.origin = "f", .problems = problems};
  const auto document = document_of(R"({"a":null})");
  const Fields fields(document.root(), report);
  for (const auto* key : {"a", "b"}) {
    CHECK(fields.text(key, "x") == "x");
    CHECK_FALSE(fields.boolean(key, false));
    CHECK(fields.number(key, 1) == 1);
    CHECK_FALSE(fields.integer(key, 0, 1));
    CHECK_FALSE(fields.texts(key));
    CHECK_FALSE(fields.find(key));
    const Fields member(fields, key);
    CHECK_FALSE(member.exists());
    CHECK(member.text("c").empty());
    member.each_member([](std::string_view, const JsonValue&) { FAIL("no member"); });
  }
  CHECK(fields.has("a"));
  CHECK_FALSE(fields.has("b"));
  CHECK(problems.empty());
}

TEST_CASE("a document that is no object is refused as a whole") {
  Problems problems;
  Report report{.origin = "f", .problems = problems};
  const auto document = document_of("[1]");
  const Fields fields(document.root(), report);
  CHECK_FALSE(fields.exists());
  CHECK(lines_of(problems) == Lines{"error: f: must be an object, not a list"});
}

}  // namespace
}  // namespace ipvsproxier::api

#include "proxier/api/json_value.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ipvsproxier::api {
namespace {

using Kind = JsonValue::Kind;

JsonDocument parsed(const std::string& text) {
  CAPTURE(text);
  auto document = JsonDocument::parse(text);
  REQUIRE(document);
  return *std::move(document);
}

TEST_CASE("a value is read as what it is, and as nothing else") {
  const auto document = parsed(R"([null, true, -7, 1.5, "a\u0000b", [], {}])");
  std::vector<Kind> kinds;
  for (const auto& value : document.root().elements()) {
    kinds.push_back(value.kind());
    CHECK(value.boolean().has_value() == (value.kind() == Kind::boolean));
    CHECK(value.is_number() == (value.kind() == Kind::integer || value.kind() == Kind::real));
    CHECK(value.text().has_value() == value.is_text());
    CHECK(value.elements().empty());
    CHECK(value.members().empty());
    CHECK_FALSE(value.find("a"));
  }
  CHECK(kinds == std::vector{Kind::null, Kind::boolean, Kind::integer, Kind::real, Kind::text,
                             Kind::list, Kind::object});
  CHECK(document.root().elements().count() == kinds.size());
}

TEST_CASE("a number is of one kind, and its value never another than what was written") {
  struct Row {
    std::string text;
    std::optional<std::int64_t> integer;
    std::optional<std::uint64_t> large_integer;
    std::optional<double> real;
  };
  const auto row = GENERATE(values<Row>({
      {"9223372036854775807", INT64_MAX, {}, {}},
      {"-9223372036854775808", INT64_MIN, {}, {}},
      {"9223372036854775808", {}, std::uint64_t{INT64_MAX} + 1, {}},
      {"18446744073709551615", {}, UINT64_MAX, {}},
      {"80.0", {}, {}, 80.0},
      {"-1e3", {}, {}, -1000.0},
  }));
  CAPTURE(row.text);
  const auto document = parsed(row.text);
  CHECK(document.root().integer() == row.integer);
  CHECK(document.root().large_integer() == row.large_integer);
  CHECK(document.root().real() == row.real);
  CHECK(document.root().number() == std::stod(row.text));
  CHECK_FALSE(JsonDocument::parse("18446744073709551616"));
}

TEST_CASE("of repeated keys the last one counts, even if it is null") {
  const auto document = parsed(R"({"a":1,"b":{"c":2},"a":null,"a\u0062":3,"a":[4]})");
  const auto root = document.root();
  CHECK(root.find("a").value().is_list());
  CHECK(root.find("ab").value().integer() == 3);
  CHECK(root.find("b").value().find("c").value().integer() == 2);
  CHECK_FALSE(root.find("c"));
  CHECK(parsed(R"({"a":1,"a":null})").root().find("a").value().is_null());
  std::string keys;
  for (const auto& [key, value] : root.members())
    keys += std::string(key) + to_json_text(value) + " ";
  CHECK(keys == R"(a1 b{"c":2} anull ab3 a[4] )");
  CHECK(has_duplicate_keys(root));
  CHECK_FALSE(has_duplicate_keys(root.find("b").value()));
}

TEST_CASE("a value stays where it is when its document moves") {
  auto document = parsed(R"({"a":["x"]})");
  const auto list = document.root().find("a").value();
  const auto moved = std::move(document);
  CHECK((*list.elements().begin()).text() == "x");
  CHECK(to_json_text(moved.root().find("a").value()) == R"(["x"])");
}

TEST_CASE("JSON is written as it was meant") {
  for (const auto* text :
       {"null", "true", "-7", "18446744073709551615", "80.0", "1e+20", R"("\"\\\n\t\u0001/ü")",
        R"({"a":{"c":[1,{}]},"b":[]})", "[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]"})
    CHECK(to_json_text(parsed(text).root()) == text);
}

TEST_CASE("too deep, more than one value, and no JSON are errors") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(JsonDocument::parse(nested(kMaxDepth - 1)));
  CHECK_FALSE(JsonDocument::parse(nested(kMaxDepth + 1)));
  for (const auto* text : {"", " ", "{} {}", "{\"a\":}", "[1,]", "\"\xff\"", "nul"}) {
    CAPTURE(text);
    const auto document = JsonDocument::parse(text);
    REQUIRE_FALSE(document);
    CHECK(document.error().kind == netlink::ErrorKind::malformed);
  }
}

}  // namespace
}  // namespace ipvsproxier::api

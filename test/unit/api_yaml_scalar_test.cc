#include <catch2/catch.hpp>

#include "proxier/api/yaml_scalar.h"

namespace ipvsproxier::api {
namespace {

TEST_CASE("plain scalars mean what they mean to kubectl") {
  // The JSON text of the value, which also tells 8 from 8.0.
  const auto [text, json] = GENERATE(table<std::string, std::string>({
      {"", "null"},
      {"~", "null"},
      {"null", "null"},
      {"nUll", "\"nUll\""},
      {"true", "true"},
      {"Yes", "true"},
      {"on", "true"},
      {"y", "true"},
      {"FALSE", "false"},
      {"off", "false"},
      {"No", "false"},
      {"0", "0"},
      {"8080", "8080"},
      {"-17", "-17"},
      {"+17", "17"},
      {"010", "8"},
      {"0o17", "15"},
      {"0x1F", "31"},
      {"0b101", "5"},
      {"1_000", "1000"},
      {"18446744073709551615", "18446744073709551615"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"1.5", "1.5"},
      {".5", "0.5"},
      {"1e3", "1000.0"},
      {"089", "89.0"},
      {"18446744073709551616", "1.8446744073709552e+19"},
      {"1e999", "\"1e999\""},
      {".inf", "\".inf\""},
      {"10.0.0.1", "\"10.0.0.1\""},
      {"0x", "\"0x\""},
      {"-", "\"-\""},
      {"1e", "\"1e\""},
      {"12:30", "\"12:30\""},
      {"2026-11-20T22:19:50Z", "\"2026-11-20T22:19:50Z\""},
  }));
  CAPTURE(text);
  CHECK(resolve_plain_scalar(text).dump() == json);
}

TEST_CASE("an explicit tag decides, where the text fits it") {
  const std::string yaml = "tag:yaml.org,2002:";
  CHECK(resolve_tagged_scalar(yaml + "str", "80") == "80");
  CHECK(resolve_tagged_scalar(yaml + "int", "80") == 80);
  CHECK(resolve_tagged_scalar(yaml + "bool", "on") == true);
  CHECK(resolve_tagged_scalar(yaml + "null", "~")->is_null());
  CHECK_FALSE(resolve_tagged_scalar(yaml + "int", "eighty"));
  CHECK_FALSE(resolve_tagged_scalar(yaml + "set", "80"));
  CHECK_FALSE(resolve_tagged_scalar("!port", "80"));
}

}  // namespace
}  // namespace ipvsproxier::api

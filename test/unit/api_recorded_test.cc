// What real API servers and kubectl print decodes completely, and the same from YAML.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/decode.h"
#include "proxier/api/documents.h"
#include "test/support/files.h"
#include "test/support/paths.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::api {
namespace {

using test::lines_of;
using Json = nlohmann::json;

// Block-style YAML of a JSON value; text is always quoted, which JSON's quoting serves for.
void write_block_yaml(const Json& value, int indent, std::string& out) {
  const std::string blanks(static_cast<std::size_t>(indent), ' ');
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      out += "\n" + blanks + Json(key).dump() + ":";
      write_block_yaml(member, indent + 2, out);
    }
  } else if (value.is_array() && !value.empty()) {
    for (const auto& element : value) {
      out += "\n" + blanks + "-";
      write_block_yaml(element, indent + 2, out);
    }
  } else {
    out += " " + value.dump();
  }
}

std::vector<Object> decode_items(const std::string& text, ObjectKind item_kind) {
  const auto parsed = parse_documents(text, "list");
  CHECK(lines_of(parsed.problems).empty());
  REQUIRE(parsed.documents.size() == 1);
  CHECK(parsed.documents[0].duplicates.empty());
  std::vector<Object> objects;
  Problems problems;
  const auto items = parsed.documents[0].json.root().find("items");
  REQUIRE(items);
  for (const auto& item : items->elements()) {
    if (auto object = decode_object(item, "list", problems, item_kind))
      objects.push_back(*std::move(object));
  }
  CHECK(lines_of(problems).empty());
  return objects;
}

TEST_CASE("recorded lists decode without a problem, from JSON and from YAML") {
  const auto [name, kind, count] = GENERATE(table<std::string, ObjectKind, std::size_t>({
      {"reference/shop/objects/services.json", ObjectKind::service, 13},
      {"reference/shop/objects/endpointslices.json", ObjectKind::endpoint_slice, 10},
      {"reference/shop/objects/nodes.json", ObjectKind::node, 3},
      {"recorded/services-list.body", ObjectKind::service, 11},
      {"recorded/endpointslices-list.body", ObjectKind::endpoint_slice, 10},
      {"recorded/nodes-list.body", ObjectKind::node, 1},
      {"recorded/services-page1.body", ObjectKind::service, 4},
      {"recorded/services-page2.body", ObjectKind::service, 4},
  }));
  CAPTURE(name);
  const std::string json = test::read_file(test::data_path(name));
  const auto objects = decode_items(json, kind);
  CHECK(objects.size() == count);
  std::string yaml = "---";
  write_block_yaml(
      Json::parse(to_json_text(parse_documents(json, "list").documents.at(0).json.root())), 0,
      yaml);
  CHECK(decode_items(yaml, kind) == objects);
}

TEST_CASE("one recorded object is what its text says") {
  const auto objects =
      decode_items(test::read_file(test::data_path("reference/shop/objects/endpointslices.json")),
                   ObjectKind::endpoint_slice);
  const auto& slice = std::get<EndpointSlice>(objects.at(1));
  CHECK(describe(objects[1]) == "EndpointSlice shop/dns-0");
  CHECK(slice.service == "dns");
  CHECK(slice.ports ==
        std::vector<EndpointPort>{{"dns", Protocol::udp, 53}, {"dns-tcp", Protocol::tcp, 53}});
  const auto endpoints = slice.endpoints.unpack();
  REQUIRE(endpoints.size() == 2);
  CHECK(endpoints[0] == Endpoint{.address = *IpAddress::parse("10.244.0.9"), .node_name = "kp"});
}

}  // namespace
}  // namespace ipvsproxier::api

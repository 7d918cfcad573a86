#pragma once

// Objects out of YAML text, for tests of the decoder.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/api/decode.h"
#include "proxier/api/documents.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::test {

// One object of YAML text; its problems are added.
inline std::optional<api::Object> decode(const std::string& text, api::Problems& problems) {
  const auto parsed = api::parse_documents(text, "f");
  CHECK(lines_of(parsed.problems) == std::vector<std::string>{});
  REQUIRE(parsed.documents.size() == 1);
  return api::decode_object(parsed.documents[0].json.root(), parsed.documents[0].origin, problems);
}

template <typename T>
T decode_whole(const std::string& text) {
  api::Problems problems;
  const auto object = decode(text, problems);
  CHECK(lines_of(problems) == std::vector<std::string>{});
  REQUIRE(object);
  return std::get<T>(*object);
}

inline std::string service_with(const std::string& spec, const std::string& more = "") {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {" + spec +
         "}\n" + more;
}

inline std::string slice_with(const std::string& rest) {
  return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
         "metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}\n" +
         rest;
}

}  // namespace ipvsproxier::test

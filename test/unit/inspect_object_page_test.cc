#include "proxier/inspect/object_page.h"

#include <functional>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::inspect {
namespace {

using Json = nlohmann::json;
using api::ObjectKind;
using Names = std::vector<std::string>;

// Services a/s0, a/s1, ..., b/s0, ... with two slices each.
model::ClusterState cluster_of(int services) {
  model::ClusterState cluster;
  for (const std::string ns : {"a", "b"})
    for (int i = 0; i < services; ++i) {
      auto service = test::web_service();
      service.name = {ns, "s" + std::to_string(i)};
      for (const char* slice : {"x", "y"})
        cluster.put(test::slice_of(service, 8080, {test::endpoint("10.244.1.2", "n2")},
                                   service.name.name + slice));
      cluster.put(std::move(service));
    }
  return cluster;
}

struct Read {
  Names names;  // in their order
  std::size_t pages = 0;
};

Read read_all(const model::ClusterState& cluster, ObjectQuery query, std::size_t bytes) {
  Read read;
  for (;;) {
    ++read.pages;
    const auto page = Json::parse(object_page(cluster, query, bytes));
    CHECK(page["kind"] == "List");
    for (const auto& item : page["items"])
      read.names.push_back(std::string(item["metadata"]["namespace"]) + "/" +
                           std::string(item["metadata"]["name"]));
    const auto next = page["metadata"].value("continue", "");
    if (next.empty()) return read;
    query.services.after = parse_page_end(next);
    REQUIRE(query.services.after);
  }
}

TEST_CASE("pages hold every object once, in order, whatever their size") {
  const auto cluster = cluster_of(12);
  for (const auto kind : {ObjectKind::service, ObjectKind::endpoint_slice}) {
    const auto size = object_page(cluster, {.kind = kind}, 1 << 20).size();
    const auto whole = read_all(cluster, {.kind = kind}, 1 << 20);
    CHECK(whole.pages == 1);
    CHECK(whole.names.size() == (kind == ObjectKind::service ? 24 : 48));
    CHECK(std::set<std::string>(whole.names.begin(), whole.names.end()).size() ==
          whole.names.size());
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, size / 2, size * 9 / 10}) {
      const auto parts = read_all(cluster, {.kind = kind}, bytes);
      CHECK(parts.names == whole.names);
      if (bytes == 0) CHECK(parts.pages == whole.names.size());
      CHECK(parts.pages > 1);
    }
  }
}

TEST_CASE("a page can be of one namespace or one Service") {
  const auto cluster = cluster_of(3);
  CHECK(read_all(cluster, {.kind = ObjectKind::service, .services = {.ns = "b"}}, 0).names ==
        Names{"b/s0", "b/s1", "b/s2"});
  CHECK(
      read_all(cluster, {.kind = ObjectKind::service, .services = {.ns = "aa"}}, 0).names.empty());
  const api::NamespacedName one{"b", "s1"};
  const auto slices =
      read_all(cluster, {.kind = ObjectKind::endpoint_slice, .services = {.service = one}}, 0);
  CHECK(slices.names == Names{"b/s1-s1x", "b/s1-s1y"});
  CHECK(slices.pages == 2);
  const api::NamespacedName none{"b", "s11"};
  CHECK(read_all(cluster, {.kind = ObjectKind::service, .services = {.service = none}}, 0)
            .names.empty());
}

TEST_CASE("a page goes on in a Service though its slices have changed") {
  auto cluster = cluster_of(2);
  const auto after = [&](const char* end) {
    return read_all(cluster,
                    {.kind = ObjectKind::endpoint_slice,
                     .services = {.after = parse_page_end(end), .ns = "a"}},
                    0)
        .names;
  };
  CHECK(after("a/s0/s0-s0x") == Names{"a/s0-s0y", "a/s1-s1x", "a/s1-s1y"});
  CHECK(after("a/s0/s0-s0y") == Names{"a/s1-s1x", "a/s1-s1y"});
  cluster.slices.at({"a", "s0"}).erase(std::string("s0-s0x"));
  CHECK(after("a/s0/s0-s0x") == Names{"a/s0-s0y", "a/s1-s1x", "a/s1-s1y"});
  cluster.slices.erase({"a", "s0"});
  CHECK(after("a/s0/s0-s0x") == Names{"a/s1-s1x", "a/s1-s1y"});
}

TEST_CASE("the text of where a page ended is read as it was written, or refused") {
  for (const std::string text : {"a/b", "a/b/c"}) CHECK(to_string(*parse_page_end(text)) == text);
  CHECK(parse_page_end("a/b/c")->slice == "c");
  for (const char* text : {"", "a", "/", "a/", "/b", "a//", "a//c", "a/b/"}) {
    INFO(text);
    CHECK_FALSE(parse_page_end(text));
  }
}

TEST_CASE("the Node is a list of one, or of none") {
  model::ClusterState cluster;
  CHECK(object_page(cluster, {.kind = ObjectKind::node}, 0) ==
        R"({"apiVersion":"v1","kind":"List","metadata":{},"items":[]})");
  cluster.node = api::Node{.name = "n1"};
  CHECK(Json::parse(object_page(cluster, {.kind = ObjectKind::node},
                                0))["items"][0]["metadata"]["name"] == "n1");
}

}  // namespace
}  // namespace ipvsproxier::inspect

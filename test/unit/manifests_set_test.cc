#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/manifests/manifest_set.h"
#include "test/unit/manifest_files.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::manifests {
namespace {

using test::Lines;
using test::lines_of;
using test::service;

void put(ManifestSet& set, const std::string& path, const std::string& text) {
  set.put(read_manifest_text(text, path, "n1"));
}

// "+ Service default/a 10.0.0.1 (a.yaml)", "- default/b"
Lines lines_of_update(const ManifestUpdate& update) {
  Lines lines;
  Lines gone;
  for (const auto& [name, service] : update.changes.services) {
    if (service)
      lines.push_back("+ " + name.name + " " + service->cluster_ips.at(0).to_string() + " (" +
                      service->origin + ")");
    else
      gone.push_back("- " + name.name);
  }
  lines.insert(lines.end(), gone.begin(), gone.end());
  return lines;
}

bool is_complete(const ManifestUpdate& update) {
  return update.changes.complete.value();
}

TEST_CASE("each update answers only what is different") {
  ManifestSet set;
  put(set, "a", service("web", "10.0.0.1") + service("dns", "10.0.0.2"));
  CHECK(lines_of_update(set.take_update({})) ==
        Lines{"+ dns 10.0.0.2 (a#2)", "+ web 10.0.0.1 (a)"});
  CHECK(lines_of_update(set.take_update({})).empty());
  put(set, "a", service("web", "10.0.0.1") + service("dns", "10.0.0.2"));
  CHECK(lines_of_update(set.take_update({})).empty());
  put(set, "a", service("web", "10.0.0.3"));
  CHECK(lines_of_update(set.take_update({})) == Lines{"+ web 10.0.0.3 (a)", "- dns"});
  set.remove("a");
  set.remove("unknown");
  CHECK(lines_of_update(set.take_update({})) == Lines{"- web"});
}

TEST_CASE("what changes and changes back between two updates is no difference") {
  ManifestSet set;
  put(set, "a", service("web", "10.0.0.1"));
  CHECK(set.take_update({}).changes.services.size() == 1);
  put(set, "a", service("web", "10.0.0.9") + service("new", "10.0.0.5"));
  put(set, "a", service("web", "10.0.0.1"));
  CHECK(lines_of_update(set.take_update({})).empty());
}

TEST_CASE("of one name the first file counts, and what it covers appears when it goes") {
  ManifestSet set;
  put(set, "b", service("web", "10.0.0.2"));
  CHECK(lines_of_update(set.take_update({})) == Lines{"+ web 10.0.0.2 (b)"});
  put(set, "a", service("web", "10.0.0.1"));
  put(set, "c", service("web", "10.0.0.3") + service("web", "10.0.0.4"));
  auto update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"+ web 10.0.0.1 (a)"});
  CHECK(lines_of(update.problems) ==
        Lines{"error: b: Service default/web: was already read from a; that one counts",
              "error: c: Service default/web: was already read from a; that one counts",
              "error: c#2: Service default/web: was already read from c; that one counts"});
  CHECK(is_complete(update));
  set.remove("a");
  update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"+ web 10.0.0.2 (b)"});
  CHECK(lines_of(update.problems) ==
        Lines{"error: c: Service default/web: was already read from b; that one counts"});
  set.remove("c");  // which is covered
  CHECK(lines_of_update(set.take_update({})).empty());
}

TEST_CASE("a broken document leaves the good ones, and the last good state of the others") {
  ManifestSet set;
  put(set, "a", service("one", "10.0.0.1") + service("two", "10.0.0.2"));
  CHECK(set.take_update({}).changes.services.size() == 2);
  const auto broken = service("one", "10.0.0.9") + "---\nkind: [\n";
  put(set, "a", broken);
  auto update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"+ one 10.0.0.9 (a)"});
  CHECK(is_complete(update));
  REQUIRE(update.problems.size() == 2);
  CHECK(lines_of(update.problems).front() ==
        "warning: a: 1 object that it held before stays as it was until the file is mended or "
        "deleted");
  CHECK(update.mended.empty());

  put(set, "a", broken);  // still broken: said once, kept twice
  update = set.take_update({});
  CHECK(lines_of_update(update).empty());
  CHECK(lines_of(update.problems).empty());

  put(set, "a", service("one", "10.0.0.9"));
  update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"- two"});
  CHECK(update.mended == Lines{"a"});
  CHECK(set.take_update({}).mended.empty());

  put(set, "a", broken);
  CHECK_FALSE(set.take_update({}).problems.empty());  // anew
  set.remove("a");
  update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"- one"});
  CHECK(update.mended.empty());
}

TEST_CASE("a file that is emptied keeps all; an empty list is not empty") {
  ManifestSet set;
  put(set, "a", service("one", "10.0.0.1"));
  CHECK(set.take_update({}).changes.services.size() == 1);
  put(set, "a", "# nothing\n");
  auto update = set.take_update({});
  CHECK(lines_of_update(update).empty());
  CHECK(lines_of(update.problems).back() == "error: a: holds no object any more, not even a list");
  put(set, "a", "apiVersion: v1\nkind: List\nitems: []\n");
  update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"- one"});
  CHECK(update.mended == Lines{"a"});
}

TEST_CASE("the objects are complete when every file was good once, or is gone") {
  ManifestSet set;
  put(set, "a", service("one", "10.0.0.1"));
  CHECK(is_complete(set.take_update({})));
  put(set, "b", "kind: [");
  CHECK_FALSE(is_complete(set.take_update({})));
  put(set, "b", service("two", "10.0.0.2"));
  CHECK(is_complete(set.take_update({})));
  put(set, "b", "kind: [");
  CHECK(is_complete(set.take_update({})));
  put(set, "c", "kind: [");
  auto update = set.take_update({});
  CHECK_FALSE(is_complete(update));
  CHECK(update.held ==
        Lines{"b: 1 object that it held before stays as it was until the file is mended or deleted",
              "c: which objects it holds is not known: nothing is removed from the kernel until it "
              "is mended or deleted"});
  set.remove("c");
  put(set, "b", service("two", "10.0.0.2"));
  update = set.take_update({});
  CHECK(is_complete(update));
  CHECK(update.held.empty());
}

std::string node_at_3(const std::string& name) {
  return "---\napiVersion: v1\nkind: Node\nmetadata: {name: " + name +
         "}\nstatus: {addresses: [{type: InternalIP, address: 10.200.0.3}]}\n";
}

TEST_CASE("other Nodes are known while this node's own is not there") {
  ManifestSet set;
  put(set, "a", node_at_3("n1.example.internal"));
  put(set, "b", node_at_3("n2"));
  const auto update = set.take_update({});
  REQUIRE(update.other_nodes.size() == 2);
  CHECK(update.other_nodes[0].name == "n1.example.internal");
  CHECK(update.other_nodes[0].internal_ips.size() == 1);
  CHECK(update.other_nodes[1].name == "n2");
  put(set, "a", node_at_3("n1"));
  CHECK(set.take_update({}).other_nodes.empty());
}

// A Service with one address that cannot be read.
std::string with_bad_entry(const std::string& name) {
  return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name +
         "}\nspec: {clusterIP: 10.0.0.8, ports: [{port: 80}], externalIPs: ['192.0.2.28 ']}\n";
}

// A Service that cannot be read, as its port is none.
std::string unreadable(const std::string& name) {
  return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name +
         "}\nspec: {clusterIP: 10.0.0.8, ports: [{port: 0}]}\n";
}

TEST_CASE("a field that cannot be read costs that field, and no removal waits for it") {
  ManifestSet set;
  put(set, "a", with_bad_entry("odd") + service("one", "10.0.0.1"));
  put(set, "b", service("two", "10.0.0.2"));
  auto update = set.take_update({});
  CHECK(is_complete(update));
  CHECK(lines_of_update(update) ==
        Lines{"+ odd 10.0.0.8 (a)", "+ one 10.0.0.1 (a#2)", "+ two 10.0.0.2 (b)"});
  CHECK(update.problems.size() == 1);
  CHECK(update.changes.unreadable.empty());
  CHECK(update.held.empty());
  put(set, "a", with_bad_entry("odd"));
  set.remove("b");
  update = set.take_update({});
  CHECK(is_complete(update));
  CHECK(lines_of_update(update) == Lines{"- one", "- two"});
  put(set, "a", service("odd", "10.0.0.8"));
  CHECK(set.take_update({}).mended == Lines{"a"});
}

TEST_CASE("an object that cannot be read keeps its last state, and is named until it can") {
  const ObjectKey key{.kind = api::ObjectKind::service, .name = {"default", "odd"}};
  ManifestSet set;
  put(set, "a", unreadable("odd") + service("one", "10.0.0.1"));
  auto update = set.take_update({});
  CHECK(is_complete(update));
  REQUIRE(update.changes.unreadable.contains(key));
  CHECK(update.changes.unreadable.at(key).value().find("spec.ports[0].port") != std::string::npos);
  CHECK(set.take_update({}).changes.unreadable.empty());

  put(set, "a", service("odd", "10.0.0.3") + service("one", "10.0.0.1"));
  update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"+ odd 10.0.0.3 (a)"});
  CHECK(update.changes.unreadable == std::map<ObjectKey, std::optional<std::string>>{{key, {}}});

  put(set, "a", unreadable("odd"));
  update = set.take_update({});
  CHECK(is_complete(update));
  CHECK(lines_of_update(update) == Lines{"- one"});
  CHECK(update.changes.unreadable.at(key).has_value());
  CHECK(lines_of(update.problems).front() ==
        "warning: a: 1 object that it held before stays as it was until the file is mended or "
        "deleted");
  set.remove("a");
  update = set.take_update({});
  CHECK(lines_of_update(update) == Lines{"- odd"});
  CHECK(update.changes.unreadable == std::map<ObjectKey, std::optional<std::string>>{{key, {}}});
}

TEST_CASE("an object without a readable kind or name may be any") {
  const auto text = GENERATE(as<std::string>(), "apiVersion: v1\nkind: Service\nmetadata: {}\n",
                             "apiVersion: v1\nmetadata: {name: web}\n",
                             "apiVersion: v1\nkind: ServiceList\nitems: [7]\n",
                             "apiVersion: v2\nkind: List\nitems: []\n");
  CAPTURE(text);
  ManifestSet set;
  put(set, "a", service("one", "10.0.0.1"));
  put(set, "b", text);
  CHECK_FALSE(is_complete(set.take_update({})));
  put(set, "a", text);
  CHECK(lines_of_update(set.take_update({})).empty());
}

TEST_CASE("text that never held an object is no broken file") {
  ManifestSet set;
  put(set, "a", "kind: [");
  CHECK(set.has_documents());
  put(set, "a", "# a note\n");
  CHECK_FALSE(set.has_documents());
  const auto update = set.take_update({});
  CHECK(lines_of(update.problems).empty());
  CHECK(is_complete(update));
}

TEST_CASE("problems of others are told once too, and again when they come back") {
  ManifestSet set;
  const api::Problems gone = {api::Problem{.origin = "p", .message = "does not exist"}};
  CHECK(lines_of(set.take_update(gone).problems) == Lines{"error: p: does not exist"});
  CHECK(set.take_update(gone).problems.empty());
  CHECK(set.take_update({}).problems.empty());
  CHECK(set.take_update(gone).problems.size() == 1);
}

}  // namespace
}  // namespace ipvsproxier::manifests

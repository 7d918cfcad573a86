#include <unistd.h>

#include <filesystem>

#include <catch2/catch.hpp>

#include "proxier/manifests/manifest_source.h"
#include "test/support/paths.h"
#include "test/support/temp_dir.h"
#include "test/unit/manifest_files.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::manifests {
namespace {

namespace fs = std::filesystem;
using test::Lines;
using test::lines_of;
using test::service;

// A folder that lasts as long as the test; files by their path in it.
class Folder {
 public:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((temp_.path() / name).parent_path());
    test::write_file(temp_.path() / name, text);
  }
  void link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, temp_.path() / name);
  }
  std::string path() const { return temp_.path().string(); }
  std::string path(const std::string& name) const { return (temp_.path() / name).string(); }

 private:
  test::TempDir temp_;
};

std::string node(const std::string& name) {
  return "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"" + name + "\"}}";
}

Lines names_of(const std::vector<api::Object>& objects) {
  Lines names;
  for (const auto& object : objects) names.push_back(api::describe(object));
  return names;
}

TEST_CASE("a folder is read in byte order, without hidden, foreign and deeper files") {
  Folder folder;
  folder.write("b.yaml", service("b"));
  folder.write("Z.yml", service("z"));
  folder.write("a.json",
               "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"},"
               "\"spec\":{\"clusterIP\":\"10.0.0.2\",\"ports\":[{\"port\":80}]}}");
  folder.write(".hidden.yaml", service("hidden"));
  folder.write("notes.txt", "not: [yaml");
  folder.write("deeper/c.yaml", service("c"));
  folder.write("folder.yaml/c.yaml", service("c"));
  const auto loaded = load_manifests(folder.path(), "n1");
  CHECK(lines_of(loaded.problems) == Lines{});
  CHECK(names_of(loaded.objects) ==
        Lines{"Service default/z", "Service default/a", "Service default/b"});
}

TEST_CASE("a mounted ConfigMap is read once") {
  Folder folder;
  folder.write("..2026_11_20/web.yaml", service("web"));
  folder.link("..data", "..2026_11_20");
  folder.link("web.yaml", "..data/web.yaml");
  const auto loaded = load_manifests(folder.path(), "n1");
  CHECK(lines_of(loaded.problems) == Lines{});
  CHECK(names_of(loaded.objects) == Lines{"Service default/web"});
}

TEST_CASE("lists of every kind are opened, as kubectl prints them") {
  const std::string list =
      "apiVersion: v1\nkind: List\nitems:\n- " + node("n1") +
      "\n- apiVersion: v1\n  kind: ServiceList\n  items:\n"
      "  - {metadata: {name: s}, spec: {clusterIP: 10.0.0.1, ports: [{port: 1}]}}\n"
      "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSliceList\nitems:\n"
      "- {metadata: {name: e}, addressType: IPv4}\n"
      "---\napiVersion: v1\nkind: NodeList\nitems: null\n";
  const auto file = read_manifest_text(list, "f", "n1");
  CHECK(lines_of(file.problems) == Lines{});
  CHECK(names_of(file.objects) == Lines{"Node n1", "Service default/s", "EndpointSlice default/e"});
  CHECK(std::get<api::EndpointSlice>(file.objects[2]).origin == "f#2");
}

TEST_CASE("an item of a typed list may leave out what the list says") {
  const auto file = read_manifest_text(
      "apiVersion: v1\nkind: ServiceList\nitems:\n"
      "- {kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1, ports: [{port: 1}]}}\n"
      "- {apiVersion: null, kind: null, metadata: {name: b}, spec: {clusterIP: 10.0.0.2, ports: "
      "[{port: 1}]}}\n",
      "f", "n1");
  CHECK(lines_of(file.problems) == Lines{});
  CHECK(names_of(file.objects) == Lines{"Service default/a", "Service default/b"});
}

TEST_CASE("selection is that of kube-proxy's watches, and precedes every complaint") {
  const std::string text =
      "apiVersion: v1\nkind: Service\n"
      "metadata: {name: a, labels: {service.kubernetes.io/service-proxy-name: ''}}\n"
      "spec: {clusterIP: broken}\n"
      "---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {clusterIP: None, ports: 5}\n"
      "---\napiVersion: v1\nkind: Service\nmetadata: {name: c}\nspec: {clusterIPs: [None]}\n"
      "---\napiVersion: v1\nkind: Service\nmetadata: {name: c2}\n"
      "spec: {clusterIP: null, clusterIPs: [None], ports: 5}\n"
      "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
      "metadata: {name: d, labels: {service.kubernetes.io/headless: ''}}\naddressType: 4\n"
      "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
      "metadata: {name: e, labels: {service.kubernetes.io/service-proxy-name: x}}\n"
      "addressType: IPv4\n"
      "---\n" +
      node("n2") + "\n---\n" + node("n1");
  const auto file = read_manifest_text(text, "f", "n1");
  CHECK(lines_of(file.problems) == Lines{});
  CHECK(names_of(file.objects) == Lines{"EndpointSlice default/e", "Node n1"});
}

TEST_CASE("an unknown kind is one warning for each kind and file") {
  const std::string text =
      "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: List\nitems:\n"
      "- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n"
      "- {apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: k}}\n"
      "---\napiVersion: serving.knative.dev/v1\nkind: ServiceList\nitems: [{}]\n"
      "---\n" +
      service("web");
  const auto file = read_manifest_text(text, "f", "n1");
  CHECK(lines_of(file.problems) ==
        Lines{"warning: f: Pod (v1): unknown kind; all 2 are ignored",
              "warning: f: Service (serving.knative.dev/v1): unknown kind; it is ignored",
              "warning: f: ServiceList (serving.knative.dev/v1): unknown kind; it is ignored"});
  CHECK(names_of(file.objects) == Lines{"Service default/web"});
}

TEST_CASE("broken parts of a file are named and the rest is read") {
  const std::string text =
      "a: [\n---\n" + service("web") +
      "---\n- 1\n---\napiVersion: v2\nkind: List\nitems: []\n---\napiVersion: v1\nkind: List\n"
      "items: 5\n---\napiVersion: v1\nkind: ServiceList\nitems: [7]\n---\nkind: Service\n";
  const auto file = read_manifest_text(text, "f", "n1");
  CHECK(names_of(file.objects) == Lines{"Service default/web"});
  const auto lines = lines_of(file.problems);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].rfind("error: f: line 2, column 1: ", 0) == 0);
  CHECK(lines[0].find("; this document is left out") != std::string::npos);
  CHECK(Lines(lines.begin() + 1, lines.end()) ==
        Lines{"error: f#3: must be an object, not a list",
              "error: f#4: List: apiVersion: must be v1; the list is left out",
              "error: f#5: List: items: must be a list, not 5; the list is left out",
              "error: f#6: ServiceList: items[0]: must be an object, not 7; it is left out",
              "error: f#7: Service: apiVersion: must be v1, not missing; the object is left out"});
}

TEST_CASE("a key given twice is an error that names the object inside its list") {
  const std::string text =
      "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: "
      "a}\n"
      "  spec: {clusterIP: 10.0.0.1, clusterIP: 10.0.0.2, ports: [{port: 80}]}\n";
  const auto file = read_manifest_text(text, "f", "n1");
  CHECK(lines_of(file.problems) == Lines{"error: f: Service default/a: spec.clusterIP: is given "
                                         "more than once; the last one counts"});
  REQUIRE(file.objects.size() == 1);
  CHECK(std::get<api::Service>(file.objects[0]).cluster_ips[0].to_string() == "10.0.0.2");
}

TEST_CASE("a repeated key that only looks like an item of a list is one of the document") {
  const auto key = GENERATE(as<std::string>(), "items[x].a", "items[].a", "items[1x].a",
                            "items[99999999999999999999].a", "items[7].a");
  const auto file = read_manifest_text(
      "apiVersion: v1\nkind: List\nitems: []\n\"" + key + "\": 1\n\"" + key + "\": 2\n", "f", "n1");
  CHECK(lines_of(file.problems) ==
        Lines{"error: f: List: " + key + ": is given more than once; the last one counts"});
}

TEST_CASE("of the same object twice the first counts") {
  Folder folder;
  folder.write("a.yaml", service("web", "10.0.0.1") + "---\n" + service("web", "10.0.0.2"));
  folder.write("b.yaml", service("web", "10.0.0.3"));
  const auto loaded = load_manifests(folder.path(), "n1");
  const auto a = folder.path("a.yaml");
  CHECK(lines_of(loaded.problems) ==
        Lines{"error: " + a + "#2: Service default/web: was already read from " + a +
                  "; that one counts",
              "error: " + folder.path("b.yaml") + ": Service default/web: was already read from " +
                  a + "; that one counts"});
  REQUIRE(loaded.objects.size() == 1);
  CHECK(std::get<api::Service>(loaded.objects[0]).cluster_ips[0].to_string() == "10.0.0.1");
}

TEST_CASE("what could not be read leaves the objects incomplete, an empty list does not") {
  Folder folder;
  folder.write("list.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
  CHECK(load_manifests(folder.path(), "n1").complete);
  folder.write("web.yaml", service("web"));
  folder.write("again.yaml", service("web"));  // an error, but nothing is unknown
  CHECK(load_manifests(folder.path(), "n1").complete);
  folder.write("port.yaml",
               "apiVersion: v1\nkind: Service\nmetadata: {name: odd}\n"
               "spec: {clusterIP: 10.0.0.9, ports: [{port: 0}]}\n");
  CHECK(load_manifests(folder.path(), "n1").complete);
  folder.write("broken.yaml", "kind: [");
  CHECK_FALSE(load_manifests(folder.path(), "n1").complete);
}

TEST_CASE("paths that give nothing are named") {
  Folder folder;
  CHECK(lines_of(load_manifests(folder.path("none"), "n1").problems) ==
        Lines{"error: " + folder.path("none") + ": does not exist"});
  CHECK(lines_of(load_manifests(folder.path(), "n1").problems) ==
        Lines{"error: " + folder.path() + ": holds no file *.yaml, *.yml or *.json"});
  folder.write("empty.yaml", "# nothing\n---\n");
  CHECK(lines_of(load_manifests(folder.path(), "n1").problems) ==
        Lines{"error: " + folder.path() + ": holds no objects, not even a list"});
  CHECK_FALSE(load_manifests(folder.path(), "n1").complete);
  folder.write("web.yaml", service("web"));
  folder.link("dangling.yaml", "nowhere");
  const auto loaded = load_manifests(folder.path(), "n1");
  CHECK(lines_of(loaded.problems) == Lines{"error: " + folder.path("dangling.yaml") +
                                           ": cannot be read: No such file or directory"});
  CHECK(loaded.objects.size() == 1);
  CHECK_FALSE(loaded.complete);
}

TEST_CASE("the reference objects load as they are") {
  const auto path = test::data_path("reference/shop/objects");
  const auto loaded = load_manifests(path, "kp");
  CHECK(lines_of(loaded.problems) == Lines{});
  std::size_t nodes = 0;
  for (const auto& object : loaded.objects) nodes += std::holds_alternative<api::Node>(object);
  CHECK(nodes == 1);
  CHECK(loaded.objects.size() == 22);
}

}  // namespace
}  // namespace ipvsproxier::manifests

// From the bytes of the API's wire to objects: the readers that might be used, side by side, and
// the one that is, as a whole. Objects are generated as a server sends them, with managedFields.
//
// Every reader collects the same of each object (name, addresses, ports, conditions), so that what
// is compared is reading, not conversion; the last rows are what the daemon does.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <simdjson.h>
#include <nlohmann/json.hpp>

#include "proxier/api/wire.h"
#include "proxier/watch/event_framer.h"
#include "test/bench/stopwatch.h"
#include "test/support/paths.h"

namespace ipvsproxier::bench {
namespace {

using api::ObjectKind;
using watch::EventFramer;

// What is kept of an object, as two sums, so that readers can be compared whatever their order.
struct Digest {
  std::size_t texts = 0;
  std::size_t numbers = 0;

  void add(std::string_view text) {
    texts += text.size() * 31;
    if (!text.empty()) texts += static_cast<unsigned char>(text.back());
  }
  void add(std::int64_t number) { numbers += static_cast<std::size_t>(number); }
  friend bool operator==(const Digest&, const Digest&) = default;
};

// Metadata as kubectl and the controllers leave it: who owns which field, by path.
std::string managed_fields(const std::string& fields) {
  return R"("managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":)"
         R"("discovery.k8s.io/v1","time":"2026-11-20T22:19:50Z","fieldsType":"FieldsV1","fieldsV1":)" +
         fields + "}]";
}

std::string metadata(const std::string& name, const std::string& label, const std::string& fields) {
  return fmt::format(
      R"("metadata":{{"name":"{}","namespace":"shop","uid":"b26936df-12c4-4b85-b522-6216157b0448",)"
      R"("resourceVersion":"104259","generation":3,"creationTimestamp":"2026-11-20T22:20:00Z",)"
      R"("labels":{{"app":"{}","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io",)"
      R"("kubernetes.io/service-name":"{}"}},"annotations":{{"endpoints.kubernetes.io/last-change-)"
      R"(trigger-time":"2026-11-20T22:20:00Z"}},{}}})",
      name, label, label, managed_fields(fields));
}

std::string slice(int number, int endpoints) {
  std::string list;
  for (int i = 0; i < endpoints; ++i)
    list += fmt::format(
        R"({}{{"addresses":["10.{}.{}.{}"],"conditions":{{"ready":true,"serving":true,)"
        R"("terminating":false}},"targetRef":{{"kind":"Pod","namespace":"shop","name":"web-7d9c-{}",)"
        R"("uid":"7b0c3f0e-6d2f-4a54-9a3e-2f1c7b6a5d4e"}},"nodeName":"node-{}","zone":"zone-{}"}})",
        i == 0 ? "" : ",", number % 250, i / 250, i % 250, i, i % 50, i % 3);
  const std::string fields =
      R"({"f:addressType":{},"f:endpoints":{},"f:metadata":{"f:annotations":{".":{},)"
      R"("f:endpoints.kubernetes.io/last-change-trigger-time":{}},"f:generateName":{},"f:labels":{".":{},)"
      R"("f:app":{},"f:endpointslice.kubernetes.io/managed-by":{},"f:kubernetes.io/service-name":{}},)"
      R"("f:ownerReferences":{".":{},"k:{\"uid\":\"0d3a\"}":{}}},"f:ports":{}})";
  return fmt::format(
      R"({{{},"addressType":"IPv4","endpoints":[{}],"ports":[{{"name":"http","protocol":"TCP","port":8080}},)"
      R"({{"name":"https","protocol":"TCP","port":8443}}]}})",
      metadata(fmt::format("web-{}", number), fmt::format("web-{}", number), fields), list);
}

std::string service(int number) {
  const std::string fields =
      R"({"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}},)"
      R"("f:labels":{".":{},"f:app":{}}},"f:spec":{"f:externalTrafficPolicy":{},"f:internalTrafficPolicy":{},)"
      R"("f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},)"
      R"("f:protocol":{},"f:targetPort":{}},"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:name":{},)"
      R"("f:port":{},"f:protocol":{},"f:targetPort":{}}},"f:selector":{},"f:sessionAffinity":{},"f:type":{}}})";
  return fmt::format(
      R"({{{},"spec":{{"ports":[{{"name":"http","protocol":"TCP","port":80,"targetPort":"web","nodePort":{}}},)"
      R"({{"name":"https","protocol":"TCP","port":443,"targetPort":8443,"nodePort":{}}}],"selector":)"
      R"({{"app":"web-{}"}},"clusterIP":"10.96.{}.{}","clusterIPs":["10.96.{}.{}"],"type":"NodePort",)"
      R"("sessionAffinity":"None","externalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],)"
      R"("ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"}},"status":{{"loadBalancer":{{}}}}}})",
      metadata(fmt::format("web-{}", number), "web", fields), 30000 + number % 1000,
      31000 + number % 1000, number, number / 250 % 250, number % 250, number / 250 % 250,
      number % 250);
}

// ---- the same digest by each reader ----

template <typename Object>
void add_ports(const Object& ports, Digest& digest) {
  for (const auto& port : ports) {
    digest.add(port.at("name").template get_ref<const std::string&>());
    digest.add(port.at("port").template get<std::int64_t>());
  }
}

Digest by_nlohmann_dom(const std::string& text) {
  Digest digest;
  const auto json = nlohmann::json::parse(text);
  digest.add(json.at("metadata").at("name").get_ref<const std::string&>());
  if (const auto spec = json.find("spec"); spec != json.end()) {
    for (const auto& address : spec->at("clusterIPs"))
      digest.add(address.get_ref<const std::string&>());
    add_ports(spec->at("ports"), digest);
    return digest;
  }
  for (const auto& endpoint : json.at("endpoints")) {
    digest.add(endpoint.at("addresses").at(0).get_ref<const std::string&>());
    digest.add(std::int64_t{endpoint.at("conditions").at("ready").get<bool>()});
    digest.add(endpoint.at("nodeName").get_ref<const std::string&>());
  }
  add_ports(json.at("ports"), digest);
  return digest;
}

// Events only, with the path of keys that each value stands under: what is kept is found by it.
class Sax : public nlohmann::json_sax<nlohmann::json> {
 public:
  Digest digest;

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (key_ == "ready") digest.add(std::int64_t{value});
    return true;
  }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override {
    if (skipped_from_ != 0) return true;
    const bool metadata_name = depth_ == 2 && key_ == "name" && top_ == "metadata";
    const bool port_name = depth_ > 2 && key_ == "name" && list_ == "ports";
    if (metadata_name || port_name || key_ == "nodeName" || list_here("addresses") ||
        list_here("clusterIPs"))
      digest.add(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (skipped_from_ == 0 && (key_ == "managedFields" || key_ == "annotations"))
      skipped_from_ = depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) top_ = name;
    key_.swap(name);
    return true;
  }
  bool end_object() override {
    if (skipped_from_ == depth_) skipped_from_ = 0;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (skipped_from_ == 0 && key_ == "managedFields") skipped_from_ = depth_;
    list_ = key_;
    return true;
  }
  bool end_array() override { return end_object(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool number(std::int64_t value) {
    if (skipped_from_ == 0 && key_ == "port") digest.add(value);
    return true;
  }
  bool list_here(std::string_view name) const { return list_ == name && key_ == name; }

  std::string key_;
  std::string top_;
  std::string list_;
  int depth_ = 0;
  int skipped_from_ = 0;
};

Digest by_nlohmann_sax(const std::string& text) {
  Sax sax;
  nlohmann::json::sax_parse(text, &sax);
  return sax.digest;
}

std::string_view text_of(simdjson::dom::element element) {
  return element.get_string().value();
}

Digest by_simdjson_dom(simdjson::dom::parser& parser, const std::string& text) {
  Digest digest;
  const auto json = parser.parse(text).value();
  digest.add(text_of(json["metadata"]["name"].value()));
  const auto spec = json["spec"];
  if (!spec.error())
    for (const auto address : spec["clusterIPs"].get_array()) digest.add(text_of(address));
  if (spec.error())
    for (const auto endpoint : json["endpoints"].get_array()) {
      digest.add(text_of(endpoint["addresses"].at(0).value()));
      digest.add(std::int64_t{endpoint["conditions"]["ready"].get_bool().value()});
      digest.add(text_of(endpoint["nodeName"].value()));
    }
  for (const auto port : (spec.error() ? json["ports"] : spec["ports"]).get_array()) {
    digest.add(text_of(port["name"].value()));
    digest.add(port["port"].get_int64().value());
  }
  return digest;
}

// Members in the order in which the server writes them; another order would cost a second way.
Digest by_simdjson_on_demand(simdjson::ondemand::parser& parser, const std::string& text) {
  Digest digest;
  auto json = parser.iterate(text);
  auto root = json.get_object();
  digest.add(std::string_view(root["metadata"]["name"]));
  const auto add_ports_of = [&digest](auto ports) {
    for (auto port : ports.get_array()) {
      digest.add(std::string_view(port["name"]));
      digest.add(port["port"].get_int64().value());
    }
  };
  auto spec = root["spec"];
  if (!spec.error()) {
    auto object = spec.get_object();
    add_ports_of(object["ports"]);
    for (auto address : object["clusterIPs"].get_array()) digest.add(std::string_view(address));
    return digest;
  }
  for (auto endpoint : root["endpoints"].get_array()) {
    for (auto address : endpoint["addresses"].get_array()) digest.add(std::string_view(address));
    digest.add(std::int64_t{endpoint["conditions"]["ready"].get_bool().value()});
    digest.add(std::string_view(endpoint["nodeName"]));
  }
  add_ports_of(root["ports"]);
  return digest;
}

// ---- rows ----

void print_speed(const std::string& what, const Timing& timing, std::size_t bytes) {
  // In a guest the clock of a thread ticks by 10 ms: little takes none.
  const auto speed = [bytes](double ms) {
    return static_cast<double>(bytes) / 1000.0 / std::max(ms, 1e-3);
  };
  std::printf("%-52s %8.0f MB/s  [%.0f .. %.0f]\n", what.c_str(), speed(timing.median_ms),
              speed(timing.most_ms), speed(timing.least_ms));
}

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

std::string list_of(const std::vector<std::string>& items, ObjectKind kind) {
  std::string body = fmt::format(
      R"({{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"104300"}},"items":[)",
      to_string(kind), api_version_of(kind));
  for (const auto& item : items) body += (&item == &items.front() ? "" : ",") + item;
  return body + "]}";
}

// A list as it arrives, 16 KB at a time: what a start costs before the objects are somewhere.
std::size_t receive(const std::string& body, EventFramer::Mode mode, ObjectKind kind) {
  std::size_t objects = 0;
  EventFramer framer(mode);
  const auto take = [&](EventFramer::Piece piece, std::string_view document) {
    if (piece == EventFramer::Piece::item) {
      objects += api::decode_list_item(document, kind).object.has_value() ? 1U : 0U;
    } else if (piece == EventFramer::Piece::event) {
      objects += api::decode_watch_event(document, kind)->object.has_value() ? 1U : 0U;
    }
  };
  for (std::size_t at = 0; at < body.size(); at += 16384)
    require(framer.feed(std::string_view(body).substr(at, 16384), take).has_value(), "framing");
  require(framer.finish().has_value(), "the end");
  return objects;
}

void frame(const std::string& body, EventFramer::Mode mode) {
  EventFramer framer(mode);
  std::size_t bytes = 0;
  for (std::size_t at = 0; at < body.size(); at += 16384)
    require(framer
                .feed(std::string_view(body).substr(at, 16384),
                      [&bytes](EventFramer::Piece, std::string_view document) {
                        bytes += document.size();
                      })
                .has_value(),
            "framing");
  require(bytes > body.size() / 2, "framing lost documents");
}

void run(const std::string& name, std::vector<std::string> items, ObjectKind kind) {
  // On-Demand reads where the text is, and beyond its end.
  for (auto& item : items) item.reserve(item.size() + simdjson::SIMDJSON_PADDING);
  const auto body = list_of(items, kind);
  std::printf("\n%s: %zu of %zu bytes\n", name.c_str(), items.size(), items.front().size());
  simdjson::dom::parser dom;
  simdjson::ondemand::parser on_demand;
  const auto reference = by_nlohmann_dom(items.front());
  require(reference == by_nlohmann_sax(items.front()), "nlohmann SAX reads otherwise");
  require(reference == by_simdjson_dom(dom, items.front()), "simdjson DOM reads otherwise");
  require(reference == by_simdjson_on_demand(on_demand, items.front()),
          "On-Demand reads otherwise");
  const auto row = [&](const char* what, auto read) {
    std::size_t sum = 0;
    print_speed(what,
                measure(
                    [&] {
                      for (const auto& item : items) sum += read(item).texts;
                    },
                    5),
                body.size());
    require(sum != 0, "nothing was read");
  };
  row("  nlohmann DOM", by_nlohmann_dom);
  row("  nlohmann SAX", by_nlohmann_sax);
  row("  simdjson DOM", [&dom](const std::string& item) { return by_simdjson_dom(dom, item); });
  row("  simdjson On-Demand",
      [&on_demand](const std::string& item) { return by_simdjson_on_demand(on_demand, item); });
  print_speed("  decode_list_item: bytes to typed objects",
              measure(
                  [&] {
                    for (const auto& item : items)
                      require(api::decode_list_item(item, kind).object.has_value(), "decoding");
                  },
                  5),
              body.size());
  print_speed("  framer alone", measure([&] { frame(body, EventFramer::Mode::list); }, 5),
              body.size());
  print_speed("  framer and decoder",
              measure(
                  [&] {
                    require(receive(body, EventFramer::Mode::list, kind) == items.size(),
                            "decoding");
                  },
                  5),
              body.size());
}

// A recorded watch, many times over.
void run_recording(const std::string& path, ObjectKind kind, std::size_t size) {
  std::ifstream stream(path, std::ios::binary);
  const std::string once((std::istreambuf_iterator<char>(stream)), {});
  require(!once.empty(), "no recording " + path);
  std::string body;
  while (body.size() < size) body += once;
  std::printf("\n%s, %zu times\n", path.c_str(), body.size() / once.size());
  print_speed("  framer alone", measure([&] { frame(body, EventFramer::Mode::watch); }, 5),
              body.size());
  print_speed(
      "  framer and decoder",
      measure([&] { require(receive(body, EventFramer::Mode::watch, kind) > 0, "decoding"); }, 5),
      body.size());
}

}  // namespace
}  // namespace ipvsproxier::bench

// With an argument: little, to be tried.
int main(int argc, char**) {
  using namespace ipvsproxier;
  using namespace ipvsproxier::bench;
  const int part = argc > 1 ? 100 : 1;
  std::vector<std::string> items;
  for (int i = 0; i < 10000 / part; ++i) items.push_back(slice(i, 10));
  run("slices of 10 endpoints", std::move(items), api::ObjectKind::endpoint_slice);
  items.clear();
  for (int i = 0; i < 1500 / part; ++i) items.push_back(slice(i, 100));
  run("slices of 100 endpoints", std::move(items), api::ObjectKind::endpoint_slice);
  items.clear();
  for (int i = 0; i < 10000 / part; ++i) items.push_back(service(i));
  run("services", std::move(items), api::ObjectKind::service);
  const std::string folder = test::data_path("recorded");
  const auto size = (std::size_t{16} << 20U) / static_cast<std::size_t>(part);
  run_recording(folder + "/services-watchlist.body", api::ObjectKind::service, size);
  run_recording(folder + "/endpointslices-watchlist.body", api::ObjectKind::endpoint_slice, size);
  return 0;
}

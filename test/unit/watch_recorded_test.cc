// What a real API server answered, through the framer and the readers, in one piece and in chunks
// of random sizes. test/recorded/NAME.txt is what NAME.body holds as another JSON reader saw it
// (test/recorded/describe.py).

#include <array>
#include <filesystem>
#include <random>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "proxier/api/wire.h"
#include "proxier/watch/event_framer.h"
#include "test/support/files.h"
#include "test/support/paths.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::watch {
namespace {

using api::ObjectKind;

std::string recorded(const std::string& name) {
  return test::read_file(test::data_path("recorded/") + name);
}

struct Describe {
  std::string text;

  void add(const std::string& word) { text += "\n  " + word; }

  void operator()(const api::Service& service) {
    constexpr std::array kTypes = {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"};
    add(fmt::format("created={}", service.creation_time.value_or(0)));
    add(kTypes.at(static_cast<std::size_t>(service.type)));
    if (service.headless) add("headless");
    for (const auto& address : service.cluster_ips) add("ip=" + address.to_string());
    for (const auto family : service.ip_families)
      add(family == netlink::Family::ipv4 ? "family=IPv4" : "family=IPv6");
    for (const auto& port : service.ports)
      add(fmt::format("port={}:{}/{}:{}", port.name, port.port, netlink::to_string(port.protocol),
                      port.node_port));
    for (const auto& address : service.external_ips) add("external=" + address.to_string());
    for (const auto& address : service.load_balancer_ips) add("balancer=" + address.to_string());
    for (const auto& range : service.source_ranges) add("range=" + range.to_string());
    if (service.affinity_seconds) add(fmt::format("affinity={}", *service.affinity_seconds));
    if (service.external_policy_local) add("external-local");
    if (service.internal_policy_local) add("internal-local");
    add(fmt::format("health={}", service.health_check_node_port));
  }

  void operator()(const api::EndpointSlice& slice) {
    add(slice.family == netlink::Family::ipv4 ? "IPv4" : "IPv6");
    add("service=" + slice.service);
    for (const auto& port : slice.ports)
      add(fmt::format("port={}:{}/{}", port.name, port.port, netlink::to_string(port.protocol)));
    const auto sign = [](bool condition) { return condition ? '+' : '-'; };
    for (const auto& endpoint : slice.endpoints) {
      add(fmt::format("endpoint={} {}{}{} node:{} zone:{} target:{}", endpoint.address.to_string(),
                      sign(endpoint.ready), sign(endpoint.serving), sign(endpoint.terminating),
                      endpoint.node_name, endpoint.zone, endpoint.target_name));
      for (const auto& zone : endpoint.zone_hints) text += fmt::format(" hint:{}", zone);
    }
  }

  void operator()(const api::Node& node) {
    for (const auto& address : node.internal_ips) add("internal=" + address.to_string());
    for (const auto& address : node.external_ips) add("external=" + address.to_string());
    for (const auto& prefix : node.pod_cidrs) add("pods=" + prefix.to_string());
    add("zone=" + node.zone);
    if (node.to_be_deleted) add("to-be-deleted");
  }
};

std::string describe(const std::optional<api::Object>& object, const api::NamespacedName& name) {
  if (!object) return "no object";
  Describe described{api::describe(*object)};
  std::visit(described, *object);
  const auto whole_name = name.ns.empty() ? name.name : to_string(name);
  CHECK(api::describe(*object).find(' ' + whole_name) != std::string::npos);
  return described.text;
}

std::string describe(const api::ApiStatus& status) {
  return fmt::format("status {} {} {} {}", status.code, status.reason,
                     status.retry_after_seconds ? std::to_string(*status.retry_after_seconds) : "-",
                     status.message);
}

std::string describe_event(std::string_view document, ObjectKind kind) {
  const auto event = api::decode_watch_event(document, kind);
  if (!event) return event.error().where;
  CHECK(test::lines_of(event->problems).empty());
  const std::string type(to_string(event->type));
  if (event->type == api::EventType::error) return type + " " + describe(event->status);
  if (event->type == api::EventType::bookmark)
    return type + " " + event->resource_version + (event->initial_events_end ? " end" : "");
  return type + " " + event->resource_version + " " + describe(event->object, event->name);
}

std::string describe_piece(EventFramer::Piece piece, std::string_view document, ObjectKind kind) {
  if (piece == EventFramer::Piece::event) return describe_event(document, kind) + "\n";
  if (piece == EventFramer::Piece::item) {
    const auto item = api::decode_list_item(document, kind);
    CHECK(test::lines_of(item.problems).empty());
    return describe(item.object, item.name) + "\n";
  }
  const auto envelope = api::decode_list_envelope(document, kind);
  if (!envelope) return describe(api::decode_status(document)) + "\n";
  return fmt::format("list {} {}\n", envelope->resource_version, envelope->continue_token);
}

template <typename NextSize>
std::string replay(const std::string& body, EventFramer::Mode mode, ObjectKind kind,
                   NextSize next_size) {
  std::string text;
  EventFramer framer(mode);
  for (std::size_t at = 0; at < body.size();) {
    const std::string chunk = body.substr(at, next_size());
    const auto status =
        framer.feed(chunk, [&](EventFramer::Piece piece, std::string_view document) {
          text += describe_piece(piece, document, kind);
        });
    if (!status) return text + to_string(status.error());
    at += chunk.size();
  }
  const auto status = framer.finish();
  return status ? text : text + to_string(status.error());
}

ObjectKind kind_of(const std::string& name) {
  if (name.rfind("endpointslices", 0) == 0) return ObjectKind::endpoint_slice;
  return name.rfind("nodes", 0) == 0 ? ObjectKind::node : ObjectKind::service;
}

TEST_CASE("every recording is what its text says, in one piece and torn at random") {
  std::size_t recordings = 0;
  std::mt19937 random(Catch::rngSeed());
  for (const auto& entry : std::filesystem::directory_iterator(test::data_path("recorded"))) {
    if (entry.path().extension() != ".body") continue;
    ++recordings;
    const auto name = entry.path().stem().string();
    CAPTURE(name);
    const auto body = recorded(name + ".body");
    const auto expected = recorded(name + ".txt");
    const bool is_watch = body.rfind("{\"type\"", 0) == 0;
    const auto mode = is_watch ? EventFramer::Mode::watch : EventFramer::Mode::list;
    CHECK(replay(body, mode, kind_of(name), [&] { return body.size(); }) == expected);
    CHECK(replay(body, mode, kind_of(name), [] { return std::size_t{1}; }) == expected);
    for (const std::size_t longest : {20U, 500U, 5000U})
      CHECK(replay(body, mode, kind_of(name), [&] { return 1 + random() % longest; }) == expected);
  }
  CHECK(recordings == 18);
}

// The most telling of them, said once more without the script.
TEST_CASE("recorded answers that steer the watch") {
  const auto first_event = [](const std::string& name, ObjectKind kind) {
    const auto body = recorded(name);
    const auto event = api::decode_watch_event(body.substr(0, body.find('\n')), kind);
    REQUIRE(event);
    return *event;
  };
  const auto gone = first_event("watch-too-old-rv.body", ObjectKind::service);
  CHECK(gone.type == api::EventType::error);
  CHECK(gone.status == api::ApiStatus{410, "Expired", "too old resource version: 1 (319)", {}});
  CHECK(api::decode_status(recorded("watch-future-rv.body")) ==
        api::ApiStatus{504, "Timeout", "Timeout: Too large resource version: 999999, current: 254",
                       1});
  const auto added = first_event("services-watch.body", ObjectKind::service);
  CHECK(added ==
        api::WatchEvent{
            .type = api::EventType::added,
            .object = api::Service{.name = {"shop", "late"},
                                   .creation_time = 1795213200,
                                   .cluster_ips = {*netlink::IpAddress::parse("10.105.105.101")},
                                   .ip_families = {netlink::Family::ipv4},
                                   .ports = {{"http", netlink::Protocol::tcp, 80, 0},
                                             {"https", netlink::Protocol::tcp, 443, 0}}},
            .name = {"shop", "late"},
            .resource_version = "259"});
}

}  // namespace
}  // namespace ipvsproxier::watch

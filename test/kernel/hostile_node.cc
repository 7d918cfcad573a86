#include "test/kernel/hostile_node.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/object_json.h"
#include "test/kernel/kernel_state.h"
#include "test/support/api_server/kubeconfig.h"
#include "test/support/cluster_builder.h"
#include "test/support/foreign_text.h"
#include "test/support/paths.h"
#include "test/support/raw_http.h"

namespace ipvsproxier::test {
namespace {

constexpr std::uint16_t kHealthPort = 10256;
constexpr std::uint16_t kMetricsPort = 10249;
constexpr std::size_t kMostLogged = 200'000;  // of a round
constexpr std::size_t kMostMetrics = 1'000'000;
constexpr std::size_t kMostEvents = 50;  // of a round

std::unique_ptr<ApiServer> started(const Netns& netns) {
  auto server = netns.inside([] { return ApiServer::start({}); });
  REQUIRE(server);
  return *std::move(server);
}

model::ClusterState aged(model::ClusterState cluster) {
  for (auto& [name, service] : cluster.services) service.creation_time = 1;
  cluster.node = furnished_node();
  return cluster;
}

// A Service beside the random ones, whose slice changes when the test wants it.
const netlink::VirtualServiceKey& ordinary_key() {
  static const netlink::VirtualServiceKey key{ip("10.98.0.1"), netlink::Protocol::tcp, 80};
  return key;
}

api::Service ordinary_service() {
  auto service = web_service();
  service.name = {"shop", "ordinary"};
  service.creation_time = 1;
  service.cluster_ips = {ordinary_key().address};
  return service;
}

netlink::RealServerKey ordinary_server(int change) {
  return {ip(fmt::format("10.246.{}.{}", change / 250 % 250, change % 250 + 1)), 8080};
}

api::EndpointSlice ordinary_slice(int change) {
  const auto server = ordinary_server(change);
  return slice_of(ordinary_service(), server.port, {endpoint(server.address.to_string(), "n2")});
}

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// `ipvsctl service` about the Service of a case: by its address where no word can name it.
std::string page_of(const HostileCase& one) {
  if (one.objects.empty()) return "service shop/ordinary";
  const auto& service = one.objects.front();
  const auto name = service.name_space + "/" + service.name;
  const bool is_word = name.find('\0') == std::string::npos && name.front() != '-' &&
                       name.find('/') == name.rfind('/');
  const auto json = nlohmann::json::parse(service.json, nullptr, false);
  return "service " +
         shell_word(is_word ? name : json["spec"]["clusterIP"].get_ref<const std::string&>());
}

std::string text_of_file(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

HostileNode::HostileNode(std::uint32_t seed, int services)
    : random_(seed),
      cluster_(aged(random_.cluster(services))),
      server_(started(netns_)),
      daemon_(netns_, {"--config", manifests_.config_file().string(),
                       "--control-socket=" + (dir_.path() / "control").string()}) {
  furnish_node(netns_);
  std::ofstream(dir_.path() / "kubeconfig") << kubeconfig({.server = server_->url()});
  manifests_.configure(
      fmt::format("clientConnection: {{kubeconfig: {}}}\nipvs: {{syncPeriod: 4s}}\n"
                  "detectLocalMode: ClusterCIDR\nclusterCIDR: \"10.244.0.0/16,fd00:244::/48\"\n",
                  (dir_.path() / "kubeconfig").string()));
  manifests_.remove("nodes");
  served_ = now_served();
  serve(*server_, {}, served_);
  expected_ = lines_from_scratch(*server_, served_, manifests_);
  daemon_.start();
  INFO(daemon_.log());
  REQUIRE(wrong_in_kernel(true) == "");
  for (const auto resource : kResources) REQUIRE(server_->wait_for_watches(resource, 1));
  REQUIRE(netns_.inside(
      [] { return eventually([] { return http_get(kHealthPort, "/healthz").status == 200; }); }));
  server_->clear_requests();
}

Victims HostileNode::victims() const {
  Victims victims{.node_addresses = {"10.0.0.1", "10.244.0.1", "fd00:1::1"}, .services = {}};
  for (const auto& [name, service] : cluster_.services)
    if (!service.cluster_ips.empty() && !service.ports.empty())
      victims.services.push_back({name.ns, name.name, service.cluster_ips[0].to_string(),
                                  service.ports[0].port,
                                  std::string(netlink::to_string(service.ports[0].protocol))});
  return victims;
}

void HostileNode::put_text(const std::string& json) {
  REQUIRE(server_->put(json));
}

void HostileNode::put(const HostileObject& object) {
  REQUIRE(server_->put_raw(object.json, object.raw));
}

void HostileNode::put(const std::vector<HostileCase>& cases) {
  for (const auto& one : cases)
    for (const auto& object : one.objects) put(object);
}

void HostileNode::remove(const std::vector<HostileCase>& cases) {
  for (const auto& one : cases)
    for (const auto& object : one.objects)
      server_->remove(object.kind == "Service" ? Resource::services : Resource::endpoint_slices,
                      object.name, object.name_space);
  put_text(served_.at({Resource::nodes, {"", "n1"}}));
}

void HostileNode::change_cluster() {
  random_.tweak(cluster_);
  cluster_ = aged(std::move(cluster_));
  auto now = now_served();
  now.at({Resource::nodes, {"", "n1"}}) = served_.at({Resource::nodes, {"", "n1"}});
  serve(*server_, served_, now);
  served_ = std::move(now);
  expected_ = lines_from_scratch(*server_, served_, manifests_);
}

ServedObjects HostileNode::now_served() const {
  auto objects = served_objects(cluster_);
  const auto slice = ordinary_slice(changes_);
  objects[{Resource::services, ordinary_service().name}] = api::to_json(ordinary_service());
  objects[{Resource::endpoint_slices, slice.name}] = api::to_json(slice);
  return objects;
}

// What of a line stays when other objects come. Sets grow with what is in them.
std::string HostileNode::lasting_part(const std::string& line) {
  return line.starts_with("create ") ? "" : line;
}

std::optional<double> HostileNode::seconds_of_change() {
  IpvsView view(netns_);
  const auto slice = ordinary_slice(++changes_);
  const auto server = ordinary_server(changes_);
  const auto begin = std::chrono::steady_clock::now();
  put_text(served_.at({Resource::endpoint_slices, slice.name}) = api::to_json(slice));
  const bool there = eventually(
      [&] { return !daemon_.runs() || view.weight(ordinary_key(), server); }, kMostChanging);
  if (!there || !daemon_.runs()) return std::nullopt;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string HostileNode::missing_in_kernel() {
  std::multiset<std::string> actual;
  for (const auto& line : kernel_lines(netns_)) actual.insert(lasting_part(line));
  std::string missing;
  for (const auto& line : expected_)
    if (const auto part = lasting_part(line);
        !part.empty() && !actual.contains(part) && missing.size() < 2000)
      missing += "- " + line + "\n";
  return missing;
}

std::string HostileNode::wrong_in_kernel(bool alone) {
  std::string wrong;
  eventually([&] {
    wrong = alone ? difference(expected_, without_waiting(expected_, kernel_lines(netns_)))
                  : missing_in_kernel();
    return wrong.empty() || !daemon_.runs();
  });
  if (!daemon_.runs()) return "the daemon ended: " + daemon_.log();
  return wrong.empty() ? "" : "kernel:\n" + wrong;
}

std::string HostileNode::wrong_health() {
  for (const char* path : {"/healthz", "/livez"}) {
    const auto answer = netns_.inside([&] { return http_get(kHealthPort, path); });
    if (answer.status != 200) return fmt::format("{} says {} {}", path, answer.status, answer.body);
    if (auto raw = raw_text_in(answer.body); !raw.empty()) return std::string(path) + " has " + raw;
  }
  return "";
}

std::string HostileNode::listing(const std::string& words) {
  const bool json = words.find("-o json") != std::string::npos;
  const auto errors = (dir_.path() / "errors").string();
  const auto output = netns_.inside([&] {
    return shell(ipvsctl_word() + " " + words + " 2>" + errors + "; echo \"status $?\"");
  });
  const auto end = output.rfind("status ");
  const auto status = std::stoi(output.substr(end + 7));
  const auto text = output.substr(0, end);
  const auto told = text_of_file(errors);
  const auto wrong = [&](const std::string& what) {
    return fmt::format("ipvsctl {}: {}; {}", words, what, told.substr(0, 500));
  };
  // A Service that cannot be read is none.
  if (status == 2 && words.starts_with("service") &&
      told.find("there is no Service") != std::string::npos) {
    const auto raw = raw_text_in(told);
    return raw.empty() ? "" : wrong("in errors " + raw);
  }
  // These say by 1 that something differs, is left out or was not to be had.
  static const std::regex kMayFind("^(diff|explain|plan|service|status --control)");
  const int most = std::regex_search(words, kMayFind) ? 1 : 0;
  if (status > most) return wrong(fmt::format("status {}", status));
  if (auto raw = raw_text_in(text); !raw.empty()) return wrong(raw);
  if (auto raw = raw_text_in(told); !raw.empty()) return wrong("in errors " + raw);
  if (json && nlohmann::json::parse(text, nullptr, false).is_discarded())
    return wrong("no JSON: " + text.substr(0, 500));
  if (!json && text.empty()) return wrong("says nothing");
  return "";
}

std::string HostileNode::wrong_listings(std::size_t first, const std::vector<HostileCase>& cases) {
  const auto socket = " --control-socket=" + (dir_.path() / "control").string();
  const auto page = page_of(cases.empty() ? HostileCase{} : cases[first % cases.size()]);
  const std::vector<std::string> asking{"list",
                                        "list -o json",
                                        "list -o yaml",
                                        "list -o wide",
                                        "list --stats",
                                        "list -n --nosort",
                                        "list --empty",
                                        "sets",
                                        "sets -o json",
                                        "sets KUBE-CLUSTER-IP",
                                        "sets KUBE-CLUSTER-IP -o json",
                                        "sets KUBE-6-CLUSTER-IP",
                                        "sets KUBE-LOAD-BALANCER -o yaml",
                                        "connections",
                                        "connections -o json",
                                        "addresses",
                                        "addresses -o json",
                                        "addresses -o yaml",
                                        "top --once --interval 0.25",
                                        "top --once --by backend --interval 0.25",
                                        "status",
                                        "status -o json",
                                        "status --probe healthz",
                                        "diff",
                                        "diff -o json",
                                        "explain 10.0.0.9 10.97.0.2:80",
                                        "explain 10.0.0.9 10.97.0.2:80 -o json",
                                        page,
                                        page + " -o json",
                                        page + " -o yaml"};
  std::vector<std::string> all{
      "rules",         "rules -4 -o save",
      "rules -o json", "list -n --ipvsadm",
      "list -o save",  "plan -o json --config " + manifests_.config_file().string()};
  for (const auto& words : asking) all.push_back(words + socket);
  for (auto i = first % kListingParts; i < all.size(); i += kListingParts) {
    if (auto wrong = listing(all[i]); !wrong.empty()) return wrong;
  }
  for (const auto& one : cases)
    if (one.hostility == Hostility::hostile_names)
      if (auto wrong = listing(page_of(one) + socket); !wrong.empty()) return wrong;
  return "";
}

std::string HostileNode::wrong_metrics() {
  const auto answer = netns_.inside([] { return http_get(kMetricsPort, "/metrics"); });
  if (answer.status != 200) return fmt::format("/metrics says {}", answer.status);
  if (answer.body.size() > kMostMetrics)
    return fmt::format("{} bytes of metrics", answer.body.size());
  if (auto raw = raw_text_in(answer.body); !raw.empty()) return "metrics have " + raw;
  static const std::regex kLine(
      R"re(#.*|[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="([^"\\]|\\.)*",?)*\})? [-+.\w]+)re");
  std::istringstream lines(answer.body);
  for (std::string line; std::getline(lines, line);)
    if (!std::regex_match(line, kLine)) return "no line of metrics: " + line;
  return "";
}

std::string HostileNode::wrong_events(const std::vector<HostileCase>& cases) {
  std::vector<nlohmann::json> events;
  const auto told_of = [&](const HostileObject& service) {
    events.clear();
    for (const auto& event : server_->events())
      events.push_back(nlohmann::json::parse(event, nullptr, false));
    return std::any_of(events.begin(), events.end(), [&](const auto& event) {
      return event.is_object() && event["regarding"]["name"] == service.name;
    });
  };
  told_of({});
  for (const auto& one : cases)
    if (one.hostility == Hostility::others_addresses &&
        !eventually([&] { return told_of(one.objects.at(0)); }, kMostChanging))
      return "no Event about " + one.objects.at(0).name;
  const auto fresh = events.size() - std::exchange(events_seen_, events.size());
  if (fresh > kMostEvents) return fmt::format("{} Events", fresh);
  for (const auto& event : events) {
    if (!event.is_object()) return "an Event is no JSON";
    if (auto raw = raw_text_in_line(event.value("note", "")); !raw.empty())
      return "an Event has " + raw;
  }
  return "";
}

std::string HostileNode::wrong_log() {
  const auto log = daemon_.log();
  std::istringstream lines(log.substr(log_seen_));
  const auto logged = log.size() - std::exchange(log_seen_, log.size());
  if (logged > kMostLogged) return fmt::format("{} bytes of log", logged);
  // As "2026-11-20T22:19:50.123456+00:00 info: ".
  static const std::regex kBegin(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[-+:\d]+ (debug|info|warning|error): )");
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_search(line.substr(0, 60), kBegin, std::regex_constants::match_continuous))
      return "a line of the log is not ours: " + line.substr(0, 300);
    if (auto raw = raw_text_in(line); !raw.empty()) return "the log has " + raw;
  }
  return "";
}

std::string HostileNode::wrong_requests() {
  const auto requests = server_->requests();
  server_->clear_requests();
  for (const auto& request : requests)
    for (const char* key : {"sendInitialEvents", "limit"})
      if (request.query.contains(key)) return "asked for a list: " + request.path;
  return requests.size() > 100 ? fmt::format("{} requests", requests.size()) : "";
}

long HostileNode::processor_ticks() const {
  std::ifstream file(fmt::format("/proc/{}/stat", daemon_.pid()));
  std::string text;
  std::getline(file, text);
  std::istringstream words(text.substr(text.rfind(')') + 2));
  const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
  return std::stol(all.at(11)) + std::stol(all.at(12));  // utime, stime (proc(5))
}

}  // namespace ipvsproxier::test

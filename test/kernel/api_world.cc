#include "test/kernel/api_world.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "ipset/sets/set_catalog.h"
#include "test/kernel/kernel_state.h"
#include "test/support/api_server/certificates.h"
#include "test/support/api_server/objects.h"
#include "test/support/raw_http.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;
using netlink::Protocol;

constexpr const char* kNameSpace = "default";
constexpr std::uint16_t kPort = 80;
constexpr std::uint16_t kTarget = 8080;
constexpr std::uint16_t kHealthPort = 10256;
constexpr std::array kJudgedSets{"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP", "KUBE-IPVS-IPS",
                                 "KUBE-6-IPVS-IPS"};

std::vector<std::string> objects_of(const ApiService& service) {
  const std::string protocol(netlink::to_string(service.protocol));
  return {make_service(kNameSpace, service.name, service.address, kPort, protocol),
          make_slice(kNameSpace, service.name, service.endpoints, kTarget, protocol)};
}

std::vector<std::string> objects_of(const ApiCluster& cluster) {
  std::vector<std::string> objects;
  for (const auto& [name, service] : cluster)
    for (auto& object : objects_of(service)) objects.push_back(std::move(object));
  return objects;
}

ApiWorldOptions with_tls(ApiWorldOptions options) {
  if (options.plain || options.server.tls) return options;
  const auto authority = make_authority("cluster").value();
  const auto shown = issue(authority, server_wish()).value();
  options.server.tls = ServerTls{.certificate = shown.certificate, .key = shown.key};
  options.client.authority = authority.certificate;
  return options;
}

void fill(ApiServer& server, const ApiCluster& cluster) {
  auto objects = objects_of(cluster);
  objects.push_back(make_node("n1", "10.200.0.2"));
  if (const auto put = server.put_all(objects); !put)
    throw std::runtime_error(netlink::to_string(put.error()));
}

std::unique_ptr<ApiServer> started(ServerOptions options, const ApiCluster& cluster) {
  auto server = ApiServer::start(std::move(options));
  if (!server) throw std::runtime_error(netlink::to_string(server.error()));
  fill(**server, cluster);
  return *std::move(server);
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw std::runtime_error("write " + file.string());
}

// What the judge does not look at and changes of our Services do not change: the rules, and the
// other sets with what is in them.
std::vector<std::string> lasting_lines(const Netns& netns) {
  auto lines = kernel_lines(netns);
  std::erase_if(lines, [](const std::string& line) {
    if (line.starts_with("-A -") || line.starts_with("-a -")) return true;
    if (line.find("kube-ipvs0 ") != std::string::npos) return true;
    return std::ranges::any_of(kJudgedSets, [&](const char* set) {
      return line.starts_with(std::string("add ") + set + " ");
    });
  });
  return lines;
}

std::string kind_of(const LoggedRequest& request) {
  const auto& query = request.query;
  if (query.contains("continue")) return "next page";
  if (query.contains("limit")) return query.at("limit") == "1" ? "question" : "page";
  if (query.contains("sendInitialEvents")) return "stream";
  const auto version = query.find("resourceVersion");
  return "watch " + (version == query.end() ? "from anywhere" : version->second);
}

}  // namespace

ApiCluster small_cluster() {
  const std::vector<ApiService> services = {
      {.name = "web", .address = "10.96.0.10", .endpoints = {"10.244.1.11", "10.244.1.12"}},
      {.name = "steady", .address = "10.96.0.20", .endpoints = {"10.244.1.20", "10.244.2.20"}},
      {.name = "dns",
       .address = "10.96.0.53",
       .endpoints = {"10.244.1.53"},
       .protocol = Protocol::udp},
      {.name = "six", .address = "fd00:96::10", .endpoints = {"fd00:244:0:1::11"}},
  };
  ApiCluster cluster;
  for (const auto& service : services) cluster[service.name] = service;
  return cluster;
}

Facts facts_of(const ApiCluster& cluster) {
  Facts facts;
  for (const auto& [name, service] : cluster) {
    const auto address = IpAddress::parse(service.address).value();
    const netlink::VirtualServiceKey key{
        .address = address, .protocol = service.protocol, .port = kPort};
    facts.insert(service_fact({.key = key, .scheduler = "rr"}));
    facts.insert(address_fact(address));
    facts.insert(element_fact(ipset::set_name(ipset::SetId::ipvs_ips, address.family()),
                              ipset::to_string(ipset::IpElement{address})));
    facts.insert(element_fact(ipset::set_name(ipset::SetId::cluster_ip, address.family()),
                              ipset::to_string(ipset::IpPortElement{
                                  .ip = address, .protocol = key.protocol, .port = kPort})));
    for (const auto& endpoint : service.endpoints)
      facts.insert(server_fact(key, {IpAddress::parse(endpoint).value(), kTarget}));
  }
  return facts;
}

ApiWorld::ApiWorld(ApiWorldOptions options)
    : options_(with_tls(std::move(options))),
      cluster_(small_cluster()),
      server_(started(options_.server, cluster_)),
      judge_(netns_.netns(), {}),
      daemon_(netns_.netns(), flags()) {}

std::vector<std::string> ApiWorld::flags() {
  auto flags = options_.flags;
  flags.push_back("--config=" + config_file());
  return flags;
}

std::string ApiWorld::config_file() {
  const auto file = dir_.path() / "config.yaml";
  write(file,
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"
        "hostnameOverride: n1\nclusterCIDR: \"10.244.0.0/16,fd00:244::/48\"\n"
        "ipvs: {syncPeriod: " +
            options_.sync_period + "}\nclientConnection: {kubeconfig: " + client_file() + "}\n");
  return file.string();
}

std::string ApiWorld::client_file() {
  auto parts = options_.client;
  parts.server = server_->url();
  const auto file = dir_.path() / "kubeconfig";
  write(file, kubeconfig(parts));
  return file.string();
}

void ApiWorld::follow(int timeout_ms) {
  daemon_.start();
  follow_on(timeout_ms);
}

void ApiWorld::follow_on(int timeout_ms) {
  announce();
  check_reached(timeout_ms);
  for (const auto resource : kResources) REQUIRE(server_->wait_for_watches(resource, 1));
  rules_ = lasting_lines(netns());
  server_->clear_requests();
  daemon_.mark();
}

void ApiWorld::restart() {
  server_->clear_requests();
  daemon_.mark();
  daemon_.start();
}

void ApiWorld::put(const ApiService& service) {
  put_all({service});
}

void ApiWorld::put_all(const std::vector<ApiService>& services) {
  std::vector<std::string> objects;
  for (const auto& service : services) {
    cluster_[service.name] = service;
    announce();
    for (auto& object : objects_of(service)) objects.push_back(std::move(object));
  }
  REQUIRE(server_->put_all(objects));
}

void ApiWorld::remove(const std::string& name) {
  cluster_.erase(name);
  announce();
  REQUIRE(server_->remove(Resource::services, name, kNameSpace));
  REQUIRE(server_->remove(Resource::endpoint_slices, name + "-0", kNameSpace));
}

void ApiWorld::put_inflated(const ApiService& service, std::size_t bytes) {
  cluster_[service.name] = service;
  announce();
  auto objects = objects_of(service);
  objects.front() = inflate(objects.front(), bytes);
  REQUIRE(server_->put_all(objects));
}

void ApiWorld::put_raw(const ApiService& service, const std::string& fields) {
  cluster_[service.name] = service;
  announce();
  auto objects = objects_of(service);
  const std::string place = R"("metadata":{)";
  auto& first = objects.front();
  first.insert(first.find(place) + place.size(), R"("managedFields":[{"fieldsV1":"RAW"}],)");
  REQUIRE(server_->put_raw(first, fields));
  objects.erase(objects.begin());
  REQUIRE(server_->put_all(objects));
}

void ApiWorld::restore(std::uint64_t version) {
  for (const auto resource : kResources) server_->clear(resource);
  server_->set_version(version);
  fill(*server_, cluster_);
}

void ApiWorld::lose(const std::vector<std::string>& names, std::uint64_t version) {
  for (const auto& name : names) cluster_.erase(name);
  announce();
  restore(version);
}

void ApiWorld::disturb() {
  const int round = ++rounds_;
  const auto number = [round](int from) { return std::to_string(from + round); };
  auto web = cluster_.at("web");
  web.endpoints = {"10.244.1." + number(11), "10.244.1." + number(12)};
  put(web);
  auto dns = cluster_.at("dns");
  dns.endpoints.push_back("10.244.1." + number(100));
  put(dns);
  auto six = cluster_.at("six");
  six.endpoints = {"fd00:244:0:1::" + number(1000)};
  put(six);
  put({.name = "extra-" + number(0),
       .address = "10.96.1." + number(0),
       .endpoints = {"10.244.3." + number(0)}});
  if (round > 1) remove("extra-" + number(-1));
}

void ApiWorld::check_reached(int timeout_ms) {
  if (!judge_.reached(timeout_ms)) {
    INFO("missing:\n" << judge_.missing() << "log:\n" << daemon_.log());
    FAIL("the kernel does not become what the cluster is");
  }
  INFO(daemon_.log());
  CHECK_THAT(judge_.verdict(), Catch::Equals(""));
}

void ApiWorld::check_still(const ApiCluster& before) {
  check_right();
  CHECK_THAT(difference(facts_of(before), judge_.seen()), Catch::Equals(""));
}

void ApiWorld::check_right() {
  judge_.look();
  INFO(daemon_.log());
  CHECK_THAT(judge_.verdict(), Catch::Equals(""));
  CHECK(daemon_.runs());
  CHECK(http_get(kHealthPort, "/healthz").status == 200);
}

void ApiWorld::check_healthy() {
  const bool healthy = eventually([] { return http_get(kHealthPort, "/healthz").status == 200; });
  INFO(daemon_.log());
  CHECK(healthy);
}

void ApiWorld::check_told(const std::string& text, int timeout_ms) {
  const bool told = daemon_.logs(text, timeout_ms);
  INFO("looking for: " << text << "\n" << daemon_.log());
  CHECK(told);
}

void ApiWorld::finish() {
  check_reached();
  check_healthy();
  check_right();
  INFO(daemon_.log());
  CHECK_THAT(difference(rules_, lasting_lines(netns())), Catch::Equals(""));
  CHECK(daemon_.terminate() == 0);
  judge_.look();
  CHECK_THAT(judge_.verdict(), Catch::Equals(""));
}

std::vector<std::string> ApiWorld::asked(Resource resource) const {
  std::vector<std::string> kinds;
  for (const auto& request : server_->requests()) {
    if (request.path != facts_of(resource).path || request.status == 0) continue;
    const auto kind = kind_of(request);
    if (request.status != 200)
      kinds.push_back(kind + " -> " + std::to_string(request.status));
    else if (kind != "question")
      kinds.push_back(kind);
  }
  return kinds;
}

bool ApiWorld::was_asked(Resource resource, std::size_t times, int timeout_ms) const {
  return eventually([&] { return asked(resource).size() >= times; }, timeout_ms);
}

bool ApiWorld::only_watched(Resource resource) const {
  const auto all = asked(resource);
  return std::ranges::any_of(all, [](const auto& one) { return one.starts_with("watch "); }) &&
         std::ranges::all_of(all, [](const auto& one) {
           return one.starts_with("watch ") || one.starts_with("question ");
         });
}

}  // namespace ipvsproxier::test

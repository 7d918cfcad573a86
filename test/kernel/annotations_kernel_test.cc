// Annotations of Services that serve: what traffic notices of changes, and the figures of it.

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/support/files.h"
#include "test/support/ip.h"
#include "test/support/paths.h"
#include "test/support/raw_http.h"
#include "test/support/sockets.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;
using netlink::VirtualServiceKey;

constexpr const char* kAnnotatedVip = "10.96.0.9";
constexpr std::uint16_t kMetricsPort = 10249;
constexpr std::size_t kNewPerSecond = 200;

VirtualServiceKey vip_key(std::uint16_t port, Protocol protocol = Protocol::tcp) {
  return {.address = ip(kAnnotatedVip), .protocol = protocol, .port = port};
}

// A cluster with a daemon, and the one Service "web" of it.
struct AnnotatedBed {
  Cluster cluster;
  Manifests manifests;
  Daemon daemon;
  IpvsView ipvs{cluster.netns()};
  ServiceManifest web{.cluster_ips = {kAnnotatedVip},
                      .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                                {.name = "stream", .port = 90, .target = kStreamPort}}};

  explicit AnnotatedBed(int pods, const std::vector<std::string>& more_flags = {})
      : cluster({.local_pods = pods, .remote_pods = 0}),
        daemon(cluster.netns(), flags(more_flags)) {
    for (int pod = 1; pod <= pods; ++pod) web.endpoints.push_back(endpoint(pod));
  }

  std::vector<std::string> flags(const std::vector<std::string>& more) const {
    auto result = manifests.flags();
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
  EndpointManifest endpoint(int pod, const std::string& conditions = "ready: true") const {
    return {cluster.local(pod).v4, kNodeName, conditions, "a"};
  }
  void start() {
    manifests.put(web);
    daemon.mark();
    daemon.start();
    const bool synced = daemon.logs("synced: ", 60'000);
    INFO(daemon.log());
    REQUIRE(synced);
  }
  // Until the kernel has what it asks for.
  void annotate(const std::string& annotations, const std::function<bool()>& is_so) {
    web.annotations = annotations;
    manifests.put(web);
    const bool done = eventually(is_so);
    INFO(annotations << "\n" << daemon.log());
    REQUIRE(done);
  }

  std::string scheduler(std::uint16_t port = 80) {
    const auto service = ipvs.service(vip_key(port));
    return service ? std::string(service->scheduler.view()) : "";
  }
  std::uint32_t flags_of(std::uint16_t port = 80, Protocol protocol = Protocol::tcp) {
    const auto service = ipvs.service(vip_key(port, protocol));
    return service ? service->flags : ~0U;
  }
  netlink::RealServer server(int pod) {
    const auto listed =
        ipvs.server(vip_key(80), {.address = cluster.local(pod).v4, .port = kEchoPort});
    return listed ? listed->server : netlink::RealServer{};
  }
  std::unique_ptr<NewConnections> open_many(std::size_t per_second = kNewPerSecond,
                                            std::size_t total = 40'000) const {
    return std::make_unique<NewConnections>(NewConnections::Plan{.host = cluster.client(),
                                                                 .target = {ip(kAnnotatedVip), 80},
                                                                 .total = total,
                                                                 .per_second = per_second});
  }
};

// So many more were made.
void let_pass(const NewConnections& connections, std::size_t more = 40) {
  const auto goal = connections.made() + more;
  REQUIRE(eventually([&] { return connections.made() >= goal; }));
}

TEST_CASE("kernel: annotations: changes that keep the scheduler are noticed by no connection",
          "[annotations]") {
  AnnotatedBed bed(3);
  const std::string mh = "ipvs-proxier/scheduler: mh";
  bed.web.annotations = mh;
  bed.web.type = "LoadBalancer";
  bed.web.ingress_ips = {"192.0.2.9"};
  bed.start();
  LongConnections established;
  for (int i = 0; i < 8; ++i) established.open(bed.cluster.client(), {ip(kAnnotatedVip), 90});
  established.run();
  auto opened = bed.open_many();
  let_pass(*opened);
  const auto change = [&](const std::string& annotations, const std::function<bool()>& is_so) {
    INFO(annotations);
    bed.annotate(mh + annotations, is_so);
    let_pass(*opened);
    CHECK(established.moves_on() == "");
  };
  change(", ipvs-proxier/scheduler-flags: mh-port",
         [&] { return bed.flags_of() == netlink::kSchedulerFlag2; });
  change(", ipvs-proxier/scheduler-flags: \"\"", [&] { return bed.flags_of() == 0; });
  change(", ipvs-proxier/weights: \"local:4\"", [&] { return bed.server(3).weight == 4; });
  change(", ipvs-proxier/weights: \"node=n1:2\"", [&] { return bed.server(3).weight == 2; });
  change(", ipvs-proxier/weights: \"zone=a:5\"", [&] { return bed.server(3).weight == 5; });
  bed.web.slice_annotations = "ipvs-proxier/weight: \"7\"";
  change(", ipvs-proxier/weights: \"zone=a:5\"", [&] { return bed.server(3).weight == 7; });
  bed.web.slice_annotations.clear();
  // More than a slow machine makes in a minute: IPVS counts those that ended a while ago as well.
  change(", ipvs-proxier/max-connections: 100000/80000",
         [&] { return bed.server(3).upper_threshold == 100'000 && bed.server(3).weight == 1; });
  change(", ipvs-proxier/max-connections: \"200000\"",
         [&] { return bed.server(3).upper_threshold == 200'000; });
  // Nothing of it is in the kernel.
  change(", ipvs-proxier/drain-timeout: 30s, ipvs-proxier/metrics: \"true\"",
         [&] { return bed.server(3).upper_threshold == 0; });
  change(", kube-router.io/service.local: \"\", kube-router.io/service.hairpin: \"\"",
         [&] { return bed.server(3).weight == 1; });  // all endpoints are local
  const auto has_load_balancer = [&] {
    return bed.ipvs.service({.address = ip("192.0.2.9"), .protocol = Protocol::tcp, .port = 80})
        .has_value();
  };
  REQUIRE(has_load_balancer());
  change(", kube-router.io/service.skiplbips: \"\"", [&] { return !has_load_balancer(); });
  change("", has_load_balancer);
  bed.web.spec = "sessionAffinity: ClientIP";
  change("", [&] { return (bed.flags_of() & netlink::kPersistent) != 0; });
  change(", ipvs-proxier/affinity-mask: \"24\"",
         [&] { return bed.ipvs.service(vip_key(80))->netmask_bits == 24; });
  change(", ipvs-proxier/affinity-mask: \"16,64\"",
         [&] { return bed.ipvs.service(vip_key(80))->netmask_bits == 16; });
  opened->stop();
  const auto counts = opened->wait();
  INFO(to_string(counts));
  CHECK(counts.made > 400);
  CHECK(counts.failed() == 0);
}

// While the kernel has unbound one scheduler and not bound the other, it refuses.
TEST_CASE("kernel: annotations: another scheduler cuts nothing, and refuses for a moment at most",
          "[annotations]") {
  AnnotatedBed bed(3);
  bed.start();
  LongConnections established;
  for (int i = 0; i < 8; ++i) established.open(bed.cluster.client(), {ip(kAnnotatedVip), 90});
  established.run();
  auto opened = bed.open_many();
  let_pass(*opened);
  const std::vector<std::string> schedulers = {"wrr", "sh",   "lc",    "mh", "wlc", "sed", "nq",
                                               "dh",  "lblc", "lblcr", "fo", "ovf", "rr"};
  for (const auto& scheduler : schedulers) {
    bed.annotate("ipvs-proxier/scheduler: " + scheduler,
                 [&] { return bed.scheduler() == scheduler && bed.scheduler(90) == scheduler; });
    let_pass(*opened);
    CHECK(established.moves_on() == "");
  }
  opened->stop();
  const auto counts = opened->wait();
  INFO(to_string(counts));
  CHECK(counts.made > 280);
  for (const auto& [error, count] : counts.failures) {
    INFO(error);
    CHECK(error.find("refused") != std::string::npos);
  }
  // Each change stops it for a moment, in which some come at this rate; on a busy machine more.
  CHECK(counts.failed() < counts.answered());
}

TEST_CASE("kernel: annotations: a rolling update under mh refuses nobody", "[annotations]") {
  constexpr int kPods = 6;
  AnnotatedBed bed(kPods);
  bed.web.annotations = "ipvs-proxier/scheduler: mh";
  bed.web.endpoints.resize(kPods / 2);
  bed.start();
  auto opened = bed.open_many();
  let_pass(*opened);
  for (int old = 1; old <= kPods / 2; ++old) {
    const int next = old + kPods / 2;
    auto& endpoints = bed.web.endpoints;
    endpoints.push_back(bed.endpoint(next));
    bed.annotate(bed.web.annotations, [&] { return bed.server(next).weight == 1; });
    let_pass(*opened);
    endpoints.front() = bed.endpoint(old, "ready: false, serving: true, terminating: true");
    bed.annotate(bed.web.annotations, [&] { return bed.server(old).weight == 0; });
    let_pass(*opened);
    endpoints.erase(endpoints.begin());
    bed.manifests.put(bed.web);
    let_pass(*opened);
  }
  opened->stop();
  const auto counts = opened->wait();
  INFO(to_string(counts));
  CHECK(counts.failed() == 0);
  CHECK(counts.servers.size() == kPods);
}

TEST_CASE("kernel: annotations: a canary by weights gets its share", "[annotations]") {
  constexpr std::size_t kConnections = 10'000;
  AnnotatedBed bed(2);
  bed.web.annotations = "ipvs-proxier/scheduler: wrr";
  bed.web.endpoints = {bed.endpoint(1)};
  bed.web.slice_annotations = "ipvs-proxier/weight: \"19\"";
  auto canary = bed.web;
  canary.endpoints = {bed.endpoint(2)};
  canary.slice_annotations = "ipvs-proxier/weight: \"1\"";
  auto canary_slice = slices_yaml(canary);
  const std::string name = "  name: " + canary.name + "-v4\n";
  canary_slice.replace(canary_slice.find(name), name.size(), "  name: web-canary\n");
  bed.manifests.write("web", service_yaml(bed.web) + slices_yaml(bed.web) + canary_slice);
  bed.daemon.mark();
  bed.daemon.start();
  REQUIRE(bed.daemon.logs("synced: "));
  REQUIRE(eventually([&] { return bed.server(1).weight == 19 && bed.server(2).weight == 1; }));
  const auto counts = bed.open_many(2000, kConnections)->wait();
  INFO(to_string(counts));
  CHECK(counts.failed() == 0);
  CHECK(counts.servers.at("local-2") >= 490);
  CHECK(counts.servers.at("local-2") <= 510);
}

// Sends a datagram and returns who answered: "10.244.0.11 8080"; "": nobody.
std::string answers_from(const netlink::IpAddress& address, std::uint16_t port) {
  const auto socket = bound_socket(Protocol::udp, netlink::IpAddress::any(address.family()), 0);
  REQUIRE(socket);
  auto to = socket_address(address, port);
  const std::string text = "x";
  REQUIRE(::sendto(socket->get(), text.data(), text.size(), 0, to.raw(), to.size) == 1);
  if (!wait_for(socket->get(), POLLIN, 500, "answer")) return "";
  std::array<char, 256> buffer{};
  SocketAddress from;
  REQUIRE(::recvfrom(socket->get(), buffer.data(), buffer.size(), 0, from.raw(), &from.size) > 0);
  return describe(from);
}

TEST_CASE("kernel: annotations: one-packet spreads datagrams, and answers do not come from the VIP",
          "[annotations]") {
  AnnotatedBed bed(3);
  bed.web.ports = {{.name = "u", .protocol = Protocol::udp, .port = 53, .target = kEchoPort}};
  bed.web.endpoints.pop_back();
  bed.start();
  const std::string vip = std::string(kAnnotatedVip) + " 53";
  const auto from = [](const Host& host) {
    return host.netns->inside([] { return answers_from(ip(kAnnotatedVip), 53); });
  };
  const auto& outside = bed.cluster.client();
  const auto& pod = bed.cluster.local(3);
  CHECK(from(outside) == vip);
  CHECK(from(pod) == vip);
  bed.annotate("ipvs-proxier/one-packet: \"true\"",
               [&] { return (bed.flags_of(53, Protocol::udp) & netlink::kOnePacket) != 0; });
  // Masqueraded, so that an answer to this node finds nothing that translates it.
  CHECK(from(outside).empty());
  std::set<std::string> who;
  for (int i = 0; i < 8; ++i) who.insert(from(pod));
  CHECK(who.size() == 2);
  CHECK_FALSE(who.contains(vip));
  // Datagrams of the pod are answered through each change.
  for (int i = 0; i < 6; ++i) {
    bed.web.annotations =
        i % 2 == 0 ? "ipvs-proxier/one-packet: \"false\"" : "ipvs-proxier/one-packet: \"true\"";
    bed.manifests.put(bed.web);
    for (int sent = 0; sent < 50; ++sent) {
      INFO(i << " " << sent);
      REQUIRE_FALSE(from(pod).empty());
      ::poll(nullptr, 0, 5);
    }
  }
  bed.annotate("", [&] { return (bed.flags_of(53, Protocol::udp) & netlink::kOnePacket) == 0; });
  CHECK(from(outside) == vip);
}

// Each as kubectl annotate would write it, seen by ipvsadm; those without effect keep the default.
TEST_CASE("kernel: annotations: kube-router's documented examples, unchanged", "[annotations]") {
  AnnotatedBed bed(2);
  bed.start();
  std::istringstream lines(read_file(data_path("data/kube_router_annotations.txt")));
  std::size_t examples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    std::string annotation;
    std::string scheduler;
    words >> annotation >> scheduler;
    if (scheduler == "note") scheduler = "rr";
    const auto equals = annotation.find('=');
    bed.annotate(annotation.substr(0, equals) + ": \"" + annotation.substr(equals + 1) + "\"",
                 [&] { return bed.scheduler() == scheduler; });
    const auto listed = bed.cluster.netns().inside(
        [] { return shell(std::string("ipvsadm -Ln -t ") + kAnnotatedVip + ":80"); });
    INFO(line << "\n" << listed);
    CHECK(listed.find(std::string("TCP  ") + kAnnotatedVip + ":80 " + scheduler +
                      (scheduler == "sh" ? " (sh-fallback)" : "")) != std::string::npos);
    CHECK(bed.cluster.client().ask(Protocol::tcp, ip(kAnnotatedVip), 80));
    ++examples;
  }
  CHECK(examples == 12);
}

// --- traffic figures

struct Counted {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
};

// Counts what a host sends to the VIP and gets from it.
class Counters {
 public:
  explicit Counters(const Host& host) : host_(host) {
    host_.netns->inside([this] {
      iptables_ = shell("iptables -w -nL >/dev/null 2>&1 && echo iptables || echo iptables-nft");
      iptables_.pop_back();
      shell(iptables_ + " -w -A OUTPUT -d " + kAnnotatedVip);
      shell(iptables_ + " -w -A INPUT -s " + kAnnotatedVip);
    });
  }
  Counted sent() const { return of("OUTPUT"); }
  Counted got() const { return of("INPUT"); }

 private:
  Counted of(const std::string& chain) const {
    std::istringstream lines(
        host_.netns->inside([&] { return shell(iptables_ + " -w -nvxL " + chain); }));
    std::string line;
    while (std::getline(lines, line))
      if (line.find(kAnnotatedVip) != std::string::npos) {
        std::istringstream words(line);
        Counted counted;
        words >> counted.packets >> counted.bytes;
        return counted;
      }
    throw std::runtime_error("no counter in " + chain);
  }

  const Host& host_;
  std::string iptables_;  // what this kernel has
};

struct Scrape {
  std::map<std::string, std::uint64_t> figures;  // by name, over all ports
  std::string text;
};

Scrape scrape(const Netns& netns) {
  Scrape result;
  result.text = netns.inside([] { return http_get(kMetricsPort, "/metrics"); }).body;
  static const std::regex kSample(
      R"(ipvsproxier_service_([a-z_]+)\{namespace="default",service="web",port="echo",)"
      R"(kind="ClusterIP"\} ([0-9]+))");
  for (std::sregex_iterator at(result.text.begin(), result.text.end(), kSample), end; at != end;
       ++at)
    result.figures[(*at)[1]] += std::stoull((*at)[2]);
  return result;
}

TEST_CASE("kernel: annotations: traffic figures are what was sent, and never go back",
          "[annotations]") {
  AnnotatedBed bed(2, {"--service-metrics=annotated"});
  bed.web.annotations = "ipvs-proxier/metrics: \"true\"";
  auto other = bed.web;
  other.name = "other";
  other.cluster_ips = {"10.96.0.10"};
  other.annotations = "";
  bed.manifests.put(other);
  bed.start();
  const auto& client = bed.cluster.client();
  const Counters counters(client);
  std::uint64_t connections = 0;
  const auto exchange = [&](int count) {
    for (int i = 0; i < count; ++i) REQUIRE(client.ask(Protocol::tcp, ip(kAnnotatedVip), 80));
    connections += static_cast<std::uint64_t>(count);
  };
  // The kernel sums up every two seconds. What is old comes again until ten seconds are over.
  std::map<std::string, std::uint64_t> before;
  const auto agrees = [&] {
    auto now = scrape(bed.cluster.netns());
    for (const auto& [name, value] : now.figures) {
      if (!name.ends_with("_total")) continue;
      CHECK(value >= before[name]);
      before[name] = value;
    }
    const auto sent = counters.sent();
    const auto got = counters.got();
    return now.figures["connections_total"] == connections &&
           now.figures["incoming_packets_total"] == sent.packets &&
           now.figures["incoming_bytes_total"] == sent.bytes &&
           now.figures["outgoing_packets_total"] == got.packets &&
           now.figures["outgoing_bytes_total"] == got.bytes;
  };
  exchange(100);
  ::poll(nullptr, 0, 2500);
  const bool counted = agrees();
  INFO(scrape(bed.cluster.netns()).text << "\n" << bed.daemon.log());
  CHECK(counted);
  CHECK(counters.sent().packets >= 400);
  CHECK(scrape(bed.cluster.netns()).text.find("service=\"other\"") == std::string::npos);
  // Zeroed by others, and counted on.
  bed.cluster.netns().inside([] { shell("ipvsadm -Z"); });
  exchange(60);
  CHECK(eventually(agrees, 30'000));
  CHECK(before.size() == 5);
}

}  // namespace
}  // namespace ipvsproxier::test

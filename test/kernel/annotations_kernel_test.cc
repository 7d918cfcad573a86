// Annotations of a Service that is served: what the kernel has, what traffic notices of a change,
// and that a reading repairs what others did to it.

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;
using netlink::VirtualServiceKey;

constexpr const char* kVip = "10.96.0.9";
constexpr std::size_t kPerSecond = 200;

VirtualServiceKey echo_key() {
  return {.address = ip(kVip), .protocol = Protocol::tcp, .port = 80};
}

// A Service of three pods of this node, and a daemon that follows its annotations.
struct Annotated {
  Cluster cluster{{.local_pods = 3, .remote_pods = 0}};
  Manifests manifests;
  Daemon daemon{cluster.netns(), flags()};
  IpvsView ipvs{cluster.netns()};
  ServiceManifest web{.cluster_ips = {kVip},
                      .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                                {.name = "stream", .port = 90, .target = kStreamPort}},
                      .spec = "sessionAffinity: None"};

  std::vector<std::string> flags() {
    auto result = manifests.flags();
    result.emplace_back("-v=2");
    return result;
  }
  Annotated() {
    for (int pod = 1; pod <= 3; ++pod) web.endpoints.push_back({cluster.local(pod).v4, kNodeName});
    manifests.put(web);
    daemon.start();
    INFO(daemon.log());
    REQUIRE(daemon.logs("synced: "));
  }

  void annotate(const std::string& annotations) {
    daemon.mark();
    web.annotations = annotations;
    manifests.put(web);
    INFO(daemon.log());
    REQUIRE(daemon.logs("synced: "));
  }
  // As `ipvsadm` saves the virtual service of port 80, without the address of its VIP.
  std::string saved() const {
    std::string lines;
    std::istringstream text(cluster.netns().inside([] { return shell("ipvsadm -Sn"); }));
    const std::string vip = std::string(" ") + kVip + ":80";
    for (std::string line; std::getline(text, line);)
      if (const auto at = line.find(vip); at != std::string::npos)
        lines += line.erase(at, vip.size()) + "\n";
    return lines;
  }
};

TEST_CASE("kernel: annotations: each is in the kernel as ipvsadm shows it, and goes again") {
  Annotated bed;
  const auto plain = bed.saved();
  CHECK(plain ==
        "-A -t -s rr\n"
        "-a -t -r 10.244.0.11:8080 -m -w 1\n"
        "-a -t -r 10.244.0.12:8080 -m -w 1\n"
        "-a -t -r 10.244.0.13:8080 -m -w 1\n");
  bed.annotate("ipvs-proxier/scheduler: wrr, ipvs-proxier/weights: 'zone=a:9,local:4'");
  CHECK(bed.saved() ==
        "-A -t -s wrr\n"
        "-a -t -r 10.244.0.11:8080 -m -w 4\n"
        "-a -t -r 10.244.0.12:8080 -m -w 4\n"
        "-a -t -r 10.244.0.13:8080 -m -w 4\n");
  bed.annotate("ipvs-proxier/scheduler: mh, ipvs-proxier/scheduler-flags: mh-port");
  CHECK(bed.saved().starts_with("-A -t -s mh -b mh-port\n"));
  bed.annotate("kube-router.io/service.scheduler: sh, ipvs-proxier/max-connections: 7/5");
  CHECK(bed.saved() ==
        "-A -t -s sh -b sh-fallback\n"
        "-a -t -r 10.244.0.11:8080 -m -w 1 -x 7 -y 5\n"
        "-a -t -r 10.244.0.12:8080 -m -w 1 -x 7 -y 5\n"
        "-a -t -r 10.244.0.13:8080 -m -w 1 -x 7 -y 5\n");
  bed.web.spec =
      "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 9}}";
  bed.annotate("ipvs-proxier/affinity-mask: '24'");
  CHECK(bed.saved().starts_with("-A -t -s rr -p 9 -M 255.255.255.0\n"));
  bed.web.spec = "sessionAffinity: None";
  bed.annotate("");
  CHECK(bed.saved() == plain);
}

TEST_CASE("kernel: annotations: a reading repairs what others did to them") {
  Annotated bed;
  bed.manifests.configure("ipvs: {syncPeriod: 1s, minSyncPeriod: 0s}\n");
  bed.daemon.mark();
  bed.daemon.terminate();
  bed.daemon.start();
  REQUIRE(bed.daemon.logs("synced: "));
  bed.annotate(
      "ipvs-proxier/scheduler: wrr, ipvs-proxier/weights: 'local:4', "
      "ipvs-proxier/max-connections: '9'");
  const auto wanted = bed.saved();
  bed.cluster.netns().inside([] {
    return shell(
        "ipvsadm -E -t 10.96.0.9:80 -s rr && "
        "ipvsadm -e -t 10.96.0.9:80 -r 10.244.0.11:8080 -m -w 1 -x 2 -y 1");
  });
  CHECK(bed.saved() != wanted);
  CHECK(eventually([&] { return bed.saved() == wanted; }));
}

TEST_CASE("kernel: annotations: a Service that asks for too much is told, and served") {
  Annotated bed;
  bed.annotate("ipvs-proxier/scheduler: best, ipvs-proxier/max-connections: '5'");
  CHECK(bed.daemon.logs("metadata.annotations[ipvs-proxier/scheduler]: must be one of rr, "));
  CHECK(bed.saved().starts_with("-A -t -s rr\n-a -t -r 10.244.0.11:8080 -m -w 1 -x 5\n"));
}

// Weights of endpoints of this node.
TEST_CASE("kernel: annotations: connections follow the weights") {
  Annotated bed;
  bed.annotate("ipvs-proxier/scheduler: wrr");
  const auto set = [&](int pod, std::uint32_t weight) {
    const netlink::RealServer server{.key = {bed.cluster.local(pod).v4, kEchoPort},
                                     .weight = weight};
    CHECK(bed.ipvs.weight(echo_key(), server.key) == 1U);
  };
  set(1, 1);
  // All three are on one node: the slice of each pod has its own weight.
  std::string slices;
  for (int pod = 1; pod <= 3; ++pod) {
    auto one = bed.web;
    one.endpoints = {bed.web.endpoints[static_cast<std::size_t>(pod - 1)]};
    auto text = slices_yaml(one);
    const std::string name = "name: web-v4";
    const auto at = text.find(name);
    REQUIRE(at != std::string::npos);
    text.replace(at, name.size(),
                 "name: web-" + std::to_string(pod) + "\n  annotations: {ipvs-proxier/weight: '" +
                     std::to_string(pod * pod - 1) + "'}");
    slices += text;
  }
  bed.daemon.mark();
  bed.manifests.write("web", service_yaml(bed.web) + slices);
  INFO(bed.daemon.log());
  REQUIRE(bed.daemon.logs("synced: "));
  // 0, 3 and 8: wrr is exact over whole rounds.
  NewConnections connections({.host = bed.cluster.client(),
                              .target = {ip(kVip), 80},
                              .total = 220,
                              .per_second = kPerSecond});
  const auto counts = connections.wait();
  INFO(to_string(counts));
  CHECK(counts.failed() == 0);
  CHECK(counts.servers == std::map<std::string, std::size_t>{{"local-2", 60}, {"local-3", 160}});
}

TEST_CASE("kernel: annotations: no change breaks a connection, nor a new one", "[long]") {
  Annotated bed;
  LongConnections long_ones;
  for (int i = 0; i < 30; ++i) long_ones.open(bed.cluster.client(), {ip(kVip), 90});
  long_ones.run();
  const auto load = [&](const std::vector<std::string>& changes, std::uint16_t first_port) {
    NewConnections connections({.host = bed.cluster.client(),
                                .target = {ip(kVip), 80},
                                .total = 10 * kPerSecond,
                                .per_second = kPerSecond,
                                .first_port = first_port});
    for (std::size_t i = 0; connections.made() < 10 * kPerSecond; ++i)
      bed.annotate(changes[i % changes.size()]);
    return connections.wait();
  };
  const auto without_scheduler =
      load({"ipvs-proxier/scheduler: wrr, ipvs-proxier/weights: 'local:4'",
            "ipvs-proxier/scheduler: wrr, ipvs-proxier/weights: 'local:2'",
            "ipvs-proxier/scheduler: wrr, ipvs-proxier/max-connections: "
            "'5000/4000'",
            "ipvs-proxier/scheduler: wrr, ipvs-proxier/drain-timeout: 9s"},
           20000);
  INFO("all else: " << to_string(without_scheduler));
  CHECK(without_scheduler.failed() == 0);
  const auto schedulers = load(
      {"ipvs-proxier/scheduler: wrr", "ipvs-proxier/scheduler: mh", "ipvs-proxier/scheduler: wlc"},
      30000);
  INFO("the scheduler: " << to_string(schedulers));
  CHECK(schedulers.failed() * 100 <= schedulers.made);
  CHECK(long_ones.moves_on() == "");
}

}  // namespace
}  // namespace ipvsproxier::test

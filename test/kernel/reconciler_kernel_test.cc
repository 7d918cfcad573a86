// The whole path on the real kernel tables: random clusters are reached, and then there is nothing
// left to write.

#include "proxier/sync/reconciler.h"

#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "ipset/rules/rule_iptc.h"
#include "ipset/sets/set_libipset.h"
#include "netlink/conntrack/conntrack_kernel.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/links/link_kernel.h"
#include "test/kernel/netns.h"
#include "test/support/cluster_builder.h"
#include "test/support/random_cluster.h"

namespace ipvsproxier::test {
namespace {

ipset::IptcSettings loading_modules() {
  ipset::IptcSettings settings;
  settings.load_module = [](const std::string& module) {
    if (const auto loaded = netlink::load_module(module); !loaded)
      FAIL(netlink::to_string(loaded.error()));
  };
  return settings;
}

// The real tables of the namespace that the test is in.
class KernelWorld {
 public:
  KernelWorld()
      : ipvs_(netlink::KernelIpvsTable::open().value()),
        links_(netlink::KernelLinkTable::open().value()),
        sets_(ipset::LibipsetTable::open().value()),
        rules_(loading_modules()),
        conntrack_(netlink::KernelConntrackTable::open().value()),
        logger_("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)) {}

  sync::SyncReport sync(const model::ClusterState& cluster, const plan::PlannerOptions& options) {
    sync::ReconcilerSettings settings;
    settings.node_name = "n1";
    settings.options = options;
    sync::Reconciler reconciler({*ipvs_, *links_, *sets_, rules_, *conntrack_}, settings, logger_);
    reconciler.take({.changes = changes_between({}, cluster), .links = {}});
    return reconciler.run_to_end(std::chrono::steady_clock::now());
  }
  // Requests for changes, counted where they leave.
  std::uint64_t writes() const {
    return ipvs_->counters().write_requests + links_->counters().write_requests + sets_->writes() +
           rules_.commits() + conntrack_->counters().write_requests;
  }

  std::ostringstream log;

 private:
  std::unique_ptr<netlink::KernelIpvsTable> ipvs_;
  std::unique_ptr<netlink::KernelLinkTable> links_;
  std::unique_ptr<ipset::LibipsetTable> sets_;
  ipset::IptcRuleTable rules_;
  std::unique_ptr<netlink::KernelConntrackTable> conntrack_;
  spdlog::logger logger_;
};

TEST_CASE("kernel: random clusters are reached in one sync, and a second one writes nothing") {
  for (std::uint32_t seed = 100; seed < 106; ++seed) {
    INFO("seed " << seed);
    FreshNetns netns;
    netns.netns().ip(
        "link add eth0 type dummy\nlink set eth0 up\naddr add 10.0.0.1/24 dev eth0\n"
        "addr add fd00:1::1/64 dev eth0 nodad\n");
    KernelWorld world;
    RandomCluster random(seed);
    auto cluster = random.cluster(25);
    auto options = random.options();
    for (int step = 0; step < 4; ++step) {
      INFO("step " << step);
      const auto report = world.sync(cluster, options);
      INFO(world.log.str());
      CHECK(report.failures == 0);
      const auto before = world.writes();
      CHECK(world.sync(cluster, options).written == sync::Written{});
      CHECK(world.writes() == before);
      random.change(cluster);
      if (step == 1) options = random.options();
    }
  }
}

// ipset prints a network of one address without its length, and ::/96 with a dotted quad.
TEST_CASE("kernel: elements that are printed in another way than they were written are no change",
          "[item-1]") {
  FreshNetns netns;
  netns.netns().ip("link add eth0 type dummy\nlink set eth0 up\naddr add 10.0.0.1/24 dev eth0\n");
  auto web = web_service();
  web.type = api::ServiceType::load_balancer;
  web.ip_families = {netlink::Family::ipv4, netlink::Family::ipv6};
  web.cluster_ips = {ip("10.96.0.9"), ip("::10.96.0.9")};
  web.external_ips = {ip("::198.51.100.20")};
  web.load_balancer_ips = {ip("192.0.2.10"), ip("::192.0.2.10")};
  web.source_ranges = {prefix("203.0.113.0/24"), prefix("198.51.100.7/32"),
                       prefix("2001:db8::7/128"), prefix("::198.51.100.7/128")};
  const auto cluster = cluster_of({web, slice_of(web, 8080, {e1(), e2()}),
                                   slice_of(web, 8080, {endpoint("::10.244.0.3", "n1")}, "6")});
  KernelWorld world;
  const auto first = world.sync(cluster, {});
  INFO(world.log.str());
  REQUIRE(first.complete());
  const auto saved = shell("ipset save | grep ^add");
  for (const auto* line :
       {"add KUBE-LOAD-BALANCER-SOURCE-CIDR 192.0.2.10,tcp:80,198.51.100.7\n",
        "add KUBE-6-LOAD-BALANCER-SOURCE-CID ::192.0.2.10,tcp:80,2001:db8::7\n",
        "add KUBE-6-LOAD-BALANCER-SOURCE-CID ::192.0.2.10,tcp:80,::198.51.100.7\n",
        "add KUBE-6-CLUSTER-IP ::10.96.0.9,tcp:80\n",
        "add KUBE-6-EXTERNAL-IP ::198.51.100.20,tcp:80\n",
        "add KUBE-6-LOOP-BACK ::10.244.0.3,tcp:8080,::10.244.0.3\n",
        "add KUBE-6-IPVS-IPS ::10.96.0.9\n"}) {
    INFO(saved);
    CHECK(saved.find(line) != std::string::npos);
  }
  const auto writes = world.writes();
  CHECK(world.sync(cluster, {}).written == sync::Written{});
  CHECK(world.writes() == writes);
}

}  // namespace
}  // namespace ipvsproxier::test

// The whole path on the real kernel tables: random clusters are reached, and then there is nothing
// left to write.

#include "proxier/sync/reconciler.h"

#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "ipset/rule_iptc.h"
#include "ipset/set_libipset.h"
#include "netlink/conntrack_kernel.h"
#include "netlink/ipvs_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/link_kernel.h"
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

}  // namespace
}  // namespace ipvsproxier::test

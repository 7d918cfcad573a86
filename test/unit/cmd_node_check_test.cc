#include "cmd/node_check.h"

#include <memory>
#include <sstream>

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "proxier/config/config_warnings.h"
#include "test/fakes/manual_timers.h"

namespace ipvsproxier::cmd {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

const std::vector<Family> kDual = {Family::ipv4, Family::ipv6};
const std::vector<Family> kSingle = {Family::ipv4};
const auto kV4 = *IpAddress::parse("192.0.2.1");
const auto kV6 = *IpAddress::parse("2001:db8::1");

TEST_CASE("the node's first family is that of its first address") {
  config::KubeProxyConfig config;
  const auto primary = [&](const std::optional<api::Node>& node) {
    return config::node_families(config, kDual, node).primary;
  };
  CHECK(primary(std::nullopt) == Family::ipv4);
  CHECK(primary(api::Node{}) == Family::ipv4);
  CHECK(primary(api::Node{.internal_ips = {kV6, kV4}}) == Family::ipv6);
  CHECK(primary(api::Node{.internal_ips = {kV4}, .external_ips = {kV6}}) == Family::ipv4);
  CHECK(primary(api::Node{.external_ips = {kV6}}) == Family::ipv6);
  config.bind_address = "::";
  CHECK(primary(api::Node{.internal_ips = {kV4}}) == Family::ipv4);
  config.bind_address = "2001:db8::2";
  CHECK(primary(api::Node{.internal_ips = {kV4}}) == Family::ipv6);

  const auto cidr = *IpPrefix::parse("10.244.0.0/24");
  const auto families = config::node_families(config, kSingle, api::Node{.pod_cidrs = {cidr}});
  CHECK_FALSE(families.dual_stack);
  CHECK(families.pod_cidrs == std::vector{cidr});
  CHECK(config::node_families(config, kDual, std::nullopt).dual_stack);
}

TEST_CASE("that there is no Node of this name says what it means, and who looks alike") {
  Options options;
  options.manifests = "/m";
  options.node_name = "n1";
  CHECK(no_node_text(options, {}, {}) ==
        "/m: no Node n1: no endpoint counts as one of this node, so Services of policy Local have "
        "none here, and its zone, addresses and pod CIDRs are unknown; hostnameOverride names the "
        "Node");
  const auto text = no_node_text(options, {{.name = "n1.example.internal"}, {.name = "n2"}}, {});
  CHECK(text.find("; alike: n1.example.internal (hostnameOverride names the Node)") !=
        std::string::npos);
}

TEST_CASE("--init-only leaves warnings to the daemon that is started next") {
  std::ostringstream text;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  logger.set_pattern("%l %v");
  Options options;
  options.config_file = "config.yaml";
  CHECK(fits_node(options, kSingle, std::nullopt, logger));
  CHECK(text.str() ==
        "warning config.yaml: nodePortAddresses: is not set: node ports are open on all addresses; "
        "consider [primary]\n");
  text.str("");
  options.init_only = true;
  CHECK(fits_node(options, kSingle, std::nullopt, logger));
  CHECK(text.str().empty());
  options.config.cluster_cidr = "fd00::/64";
  options.config.detect_local_mode = "ClusterCIDR";
  CHECK_FALSE(fits_node(options, kSingle, std::nullopt, logger));
  CHECK(text.str().starts_with("error config.yaml: clusterCIDR: "));
}

TEST_CASE("what does not fit the node is told, and what cannot be served ends the start") {
  std::ostringstream text;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  logger.set_pattern("%l %v");
  Options options;
  options.config_file = "config.yaml";
  options.config.node_port_addresses = {"primary"};
  const api::Node node{.internal_ips = {kV4}};
  CHECK(fits_node(options, kSingle, node, logger));
  CHECK(text.str().empty());

  options.config.cluster_cidr = "fd00::/64";
  options.config.detect_local_mode = "ClusterCIDR";
  CHECK(fits_node(options, kDual, node, logger));
  CHECK(text.str() ==
        "warning config.yaml: clusterCIDR: the node's first family is IPv4, but only IPv6 ranges "
        "are here\n");
  text.str("");
  CHECK_FALSE(fits_node(options, kSingle, node, logger));
  CHECK(text.str() ==
        "error config.yaml: clusterCIDR: the node has IPv4 only, but only IPv6 ranges are here\n"
        "error the configuration does not fit this node: ending; nothing was programmed\n");
}

TEST_CASE("a host that cannot proxy the node's first family is no host for this node") {
  std::ostringstream text;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
  logger.set_pattern("%l %v");
  Options options;
  options.config_file = "config.yaml";
  const api::Node node{.internal_ips = {kV6, kV4}};
  CHECK(fits_node(options, kDual, node, logger));
  text.str("");
  CHECK_FALSE(fits_node(options, kSingle, node, logger));
  CHECK(text.str() ==
        "error config.yaml: addresses of the Node: the first family is IPv6, but this host cannot "
        "proxy IPv6\n"
        "error the configuration does not fit this node: ending; nothing was programmed\n");
  text.str("");
  options.config.bind_address = "2001:db8::2";
  CHECK_FALSE(fits_node(options, kSingle, std::nullopt, logger));
  CHECK(text.str().starts_with("error config.yaml: bindAddress: the first family is IPv6, "));
}

using Verdict = PodCidrs::Verdict;

// NodeCIDR detection with time that a test sets.
struct PodCidrRig {
  PodCidrRig() {
    logger.set_pattern("%l %v");
    options.node_name = "n1";
    options.config.detect_local_mode = "NodeCIDR";
  }
  Verdict see(const std::vector<const char*>& cidrs) {
    api::Node node;
    for (const auto* cidr : cidrs) node.pod_cidrs.push_back(*IpPrefix::parse(cidr));
    return pod_cidrs.see(node);
  }

  std::ostringstream text;
  spdlog::logger logger{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(text)};
  Options options;
  test::ManualTimers timers;
  int timeouts = 0;
  PodCidrs pod_cidrs{options, timers, logger, [this] { ++timeouts; }};
};

constexpr const char* kMissing =
    "error API server: Node n1: spec.podCIDRs: missing, but detectLocalMode is NodeCIDR; ";

TEST_CASE("pod CIDRs are waited for where they tell local traffic") {
  PodCidrRig rig;
  CHECK(rig.pod_cidrs.see(std::nullopt) == Verdict::wait);
  CHECK(rig.see({}) == Verdict::wait);
  CHECK(rig.text.str() == std::string(kMissing) + "nothing is programmed until it is there\n");
  rig.timers.advance(std::chrono::minutes(5) - std::chrono::milliseconds(1));
  CHECK(rig.timeouts == 0);

  SECTION("until they come") {
    CHECK(rig.see({"10.244.0.0/24", "fd00:244::/64"}) == Verdict::good);
    rig.timers.advance(std::chrono::hours(1));
    CHECK(rig.timeouts == 0);
  }
  SECTION("for five minutes") {
    rig.text.str("");
    rig.timers.advance(std::chrono::milliseconds(1));
    CHECK(rig.timeouts == 1);
    CHECK(rig.text.str() ==
          "error Node n1: no spec.podCIDRs after 5 minutes: ending; nothing was programmed\n");
  }
}

TEST_CASE("with other pod CIDRs the process must start again, without any it goes on") {
  PodCidrRig rig;
  REQUIRE(rig.see({"10.244.0.0/24", "fd00:244::/64"}) == Verdict::good);
  CHECK(rig.see({"10.244.0.0/24", "fd00:244::/64"}) == Verdict::good);
  CHECK(rig.text.str().empty());
  for (int i = 0; i < 2; ++i) CHECK(rig.see({}) == Verdict::keep_old);
  CHECK(rig.pod_cidrs.see(std::nullopt) == Verdict::keep_old);
  CHECK(rig.text.str() == std::string(kMissing) + "the Node stays as it was last seen\n");
  rig.timers.advance(std::chrono::hours(1));
  CHECK(rig.timeouts == 0);
  CHECK(rig.see({"10.244.0.0/24", "fd00:244::/64"}) == Verdict::good);
  rig.text.str("");

  const std::vector<const char*> changed = GENERATE(values<std::vector<const char*>>({
      {"10.244.9.0/24", "fd00:244::/64"},
      {"10.244.0.0/24", "fd00:244:9::/64"},
      {"10.244.0.0/24"},
      {"fd00:244::/64"},
      {"fd00:244::/64", "10.244.0.0/24"},
  }));
  CHECK(rig.see(changed) == Verdict::end);
  CHECK(rig.text.str().starts_with(
      "error API server: Node n1: spec.podCIDRs changed from 10.244.0.0/24, fd00:244::/64 to "));
}

TEST_CASE("pod CIDRs do not matter where others tell local traffic") {
  PodCidrRig rig;
  rig.options.config.detect_local_mode = GENERATE("ClusterCIDR", "BridgeInterface", "");
  CHECK(rig.pod_cidrs.see(std::nullopt) == Verdict::good);
  CHECK(rig.see({"10.244.0.0/24"}) == Verdict::good);
  CHECK(rig.see({"10.244.1.0/24"}) == Verdict::good);
  CHECK_FALSE(lacks_pod_cidrs(rig.options, std::nullopt, rig.logger));
  CHECK(rig.text.str().empty());
  CHECK(rig.timers.count() == 0);
}

TEST_CASE("a run without following does not wait for pod CIDRs") {
  PodCidrRig rig;
  CHECK(lacks_pod_cidrs(rig.options, std::nullopt, rig.logger));
  CHECK(lacks_pod_cidrs(rig.options, api::Node{}, rig.logger));
  CHECK_FALSE(lacks_pod_cidrs(rig.options, api::Node{.pod_cidrs = {*IpPrefix::parse("fd00::/64")}},
                              rig.logger));
}

}  // namespace
}  // namespace ipvsproxier::cmd

#include <catch2/catch.hpp>

#include "proxier/config/config_warnings.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::config {
namespace {

using netlink::Family;
using netlink::IpPrefix;
using Lines = std::vector<std::string>;

constexpr auto kBoth = true;
constexpr auto kOne = false;

std::vector<IpPrefix> prefixes(const Lines& texts) {
  std::vector<IpPrefix> list;
  for (const auto& text : texts) list.push_back(*IpPrefix::parse(text));
  return list;
}

// About which nothing is to be said.
KubeProxyConfig sound() {
  KubeProxyConfig config;
  config.node_port_addresses = {"primary"};
  return config;
}

Lines doubts(const KubeProxyConfig& config, const NodeFamilies& node) {
  return test::lines_of(config_warnings(config, node, "f"));
}

TEST_CASE("a configuration that fits the node leaves no doubts") {
  auto config = sound();
  config.cluster_cidr = "10.0.0.0/8,fd00::/8";
  config.ipvs.exclude_cidrs = {"10.1.0.0/16"};
  for (const auto family : netlink::kFamilies)
    for (const bool dual : {kBoth, kOne}) {
      if (family == Family::ipv6 && !dual) continue;  // its excludeCIDRs are of IPv4 alone
      CHECK(doubts(config, {family, dual, prefixes({"10.2.0.0/16", "fd01::/64"})}) == Lines{});
    }
  for (const auto* keyword : {"primary", "localhost"}) {
    config.node_port_addresses = {keyword};
    CHECK(doubts(config, {Family::ipv6, kBoth, {}}) == Lines{});
  }
  config.node_port_addresses = {"10.0.0.0/8", "fd00::/8"};
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) == Lines{});
}

TEST_CASE("node ports that are open on more addresses than it seems") {
  auto config = sound();
  config.node_port_addresses = {};
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) ==
        Lines{"warning: f: nodePortAddresses: is not set: node ports are open on all addresses; "
              "consider [primary]"});
  config.node_port_addresses = {"10.0.0.0/8"};
  config.metrics_bind_address = "[::]:10249";
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) == Lines{});
  CHECK(doubts(config, {Family::ipv6, kOne, {}}) ==
        Lines{"warning: f: nodePortAddresses: the node has IPv6 only, but only IPv4 ranges are "
              "here: node ports are open on all IPv6 addresses"});
  const Lines half = {
      "warning: f: nodePortAddresses: the cluster seems to have both families, but only IPv4 "
      "ranges are here: node ports are open on all IPv6 addresses"};
  CHECK(doubts(config, {Family::ipv4, kBoth, prefixes({"10.1.0.0/16", "fd00::/64"})}) == half);
  config.cluster_cidr = "10.0.0.0/8,fd00::/8";
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) == half);
  config.cluster_cidr = "";
  config.ipvs.exclude_cidrs = {"10.0.0.0/8", "fd00::/8"};
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) == half);
}

TEST_CASE("ranges of the other family alone") {
  auto config = sound();
  config.cluster_cidr = "fd00::/8";
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) ==
        Lines{"warning: f: clusterCIDR: the node's first family is IPv4, but only IPv6 ranges are "
              "here"});
  CHECK(doubts(config, {Family::ipv4, kOne, {}}) ==
        Lines{"error: f: clusterCIDR: the node has IPv4 only, but only IPv6 ranges are here"});
  CHECK(doubts(config, {Family::ipv6, kOne, {}}) ==
        Lines{"warning: f: metricsBindAddress: the node has IPv6 only, but this is an IPv4 "
              "address"});
  config.detect_local_mode = "NodeCIDR";
  CHECK(doubts(config, {Family::ipv4, kOne, {}}) ==
        Lines{"warning: f: clusterCIDR: the node has IPv4 only, but only IPv6 ranges are here"});

  config = sound();
  const NodeFamilies node = {Family::ipv6, kBoth, prefixes({"10.0.0.0/24"})};
  CHECK(doubts(config, node) ==
        Lines{"warning: f: spec.podCIDRs of the Node: the node's first family is IPv6, but only "
              "IPv4 ranges are here"});
  config.detect_local_mode = "NodeCIDR";
  CHECK(api::has_error(config_warnings(config, node, "f")));
}

TEST_CASE("where only one family is there, addresses of the other") {
  auto config = sound();
  config.ipvs.exclude_cidrs = {"fd00::/8"};
  config.healthz_bind_address = "[fd00::1]:1";
  config.metrics_bind_address = "[::1]:2";
  CHECK(
      doubts(config, {Family::ipv4, kOne, {}}) ==
      Lines{"warning: f: ipvs.excludeCIDRs: the node has IPv4 only, but only IPv6 ranges are here",
            "warning: f: healthzBindAddress: the node has IPv4 only, but this is an IPv6 address",
            "warning: f: metricsBindAddress: the node has IPv4 only, but this is an IPv6 "
            "address"});
  CHECK(doubts(config, {Family::ipv4, kBoth, {}}) == Lines{});
  config = sound();
  config.healthz_bind_address = "[::]:1";
  config.metrics_bind_address = "[::]:2";
  CHECK(doubts(config, {Family::ipv4, kOne, {}}) == Lines{});
  config.healthz_bind_address = "";
  CHECK(doubts(config, {Family::ipv4, kOne, {}}) == Lines{});
}

}  // namespace
}  // namespace ipvsproxier::config

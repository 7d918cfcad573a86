#include <memory>
#include <sstream>

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <catch2/catch.hpp>

#include "cmd/config_doubts.h"
#include "cmd/log.h"

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
  KubeProxyConfig config;
  const auto primary = [&](const std::optional<api::Node>& node) {
    return node_families(config, kDual, node).primary;
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
  const auto families = node_families(config, kSingle, api::Node{.pod_cidrs = {cidr}});
  CHECK_FALSE(families.dual_stack);
  CHECK(families.pod_cidrs == std::vector{cidr});
  CHECK(node_families(config, kDual, std::nullopt).dual_stack);
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

}  // namespace
}  // namespace ipvsproxier::cmd

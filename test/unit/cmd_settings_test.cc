// What the configuration means to the parts below: that every field arrives.

#include "cmd/settings.h"

#include <catch2/catch.hpp>

#include "test/unit/config_files.h"

namespace ipvsproxier::cmd {
namespace {

using namespace std::chrono_literals;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using plan::DetectLocalMode;
using test::options_of;

const std::vector<Family> kTwoFamilies = {Family::ipv4, Family::ipv6};

std::vector<IpPrefix> prefixes(const std::vector<const char*>& texts) {
  std::vector<IpPrefix> result;
  for (const auto* text : texts) result.push_back(*IpPrefix::parse(text));
  return result;
}

plan::PlannerOptions planner_options_of(const std::vector<std::string>& flags) {
  return planner_options(options_of(flags), kTwoFamilies);
}

sync::ReconcilerSettings settings_of(const std::vector<std::string>& flags,
                                     const std::vector<Family>& families = kTwoFamilies) {
  return reconciler_settings(options_of(flags), families, 4);
}

TEST_CASE("the planner is told what the configuration says") {
  const auto defaults = planner_options_of({});
  CHECK(defaults.families == kTwoFamilies);
  CHECK(defaults.scheduler == "rr");
  CHECK(defaults.masquerade_mark == 0x4000);
  CHECK_FALSE(defaults.masquerade_all);
  CHECK(defaults.detect_local == DetectLocalMode::cluster_cidr);
  CHECK(defaults.cluster_cidrs.empty());
  CHECK(defaults.node_port_addresses.empty());
  CHECK_FALSE(defaults.node_port_primary);
  CHECK(defaults.exclude_cidrs.empty());
  CHECK(defaults.allow_external_ips);

  const auto set = planner_options_of(
      {"--ipvs-scheduler=mh", "--iptables-masquerade-bit=0", "--masquerade-all",
       "--cluster-cidr=10.244.0.0/16,fd00:244::/48", "--nodeport-addresses=10.0.0.0/8,fd00::/8",
       "--ipvs-exclude-cidrs=10.9.0.0/16,fd00:9::/32",
       "--feature-gates=AllowServiceExternalIPs=false"});
  CHECK(set.scheduler == "mh");
  CHECK(set.masquerade_mark == 1);
  CHECK(set.masquerade_all);
  CHECK(set.cluster_cidrs == prefixes({"10.244.0.0/16", "fd00:244::/48"}));
  CHECK(set.node_port_addresses == prefixes({"10.0.0.0/8", "fd00::/8"}));
  CHECK(set.exclude_cidrs == prefixes({"10.9.0.0/16", "fd00:9::/32"}));
  CHECK_FALSE(set.allow_external_ips);

  // Ours wins over the gate.
  CHECK(planner_options_of({"--external-ips", "--feature-gates=AllowServiceExternalIPs=false"})
            .allow_external_ips);
  CHECK_FALSE(planner_options_of({"--external-ips=false"}).allow_external_ips);

  const auto primary = planner_options_of({"--nodeport-addresses=primary"});
  CHECK(primary.node_port_primary);
  CHECK(primary.node_port_addresses.empty());
  CHECK_FALSE(primary.node_port_localhost);
  CHECK(planner_options_of({"--nodeport-addresses=primary,localhost"}).node_port_localhost);
}

TEST_CASE("each way to detect local traffic arrives") {
  const auto [flags, mode] = GENERATE(table<std::vector<std::string>, DetectLocalMode>({
      {{"--detect-local-mode=ClusterCIDR"}, DetectLocalMode::cluster_cidr},
      {{"--detect-local-mode=NodeCIDR"}, DetectLocalMode::node_cidr},
      {{"--detect-local-mode=BridgeInterface", "--pod-bridge-interface=cni0"},
       DetectLocalMode::bridge_interface},
      {{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"},
       DetectLocalMode::interface_name_prefix},
  }));
  const auto options = planner_options_of(flags);
  CHECK(options.detect_local == mode);
  CHECK(options.bridge_interface == (mode == DetectLocalMode::bridge_interface ? "cni0" : ""));
  CHECK(options.interface_prefix == (mode == DetectLocalMode::interface_name_prefix ? "veth" : ""));
}

TEST_CASE("the node's IP is that of bindAddress where it is one") {
  CHECK(settings_of({"--bind-address=0.0.0.0"}).bind_address == std::nullopt);
  CHECK(settings_of({"--bind-address=::"}).bind_address == std::nullopt);
  CHECK(settings_of({"--bind-address=10.0.0.7"}).bind_address == IpAddress::parse("10.0.0.7"));
  CHECK(settings_of({"--bind-address=fd00::7"}).bind_address == IpAddress::parse("fd00::7"));
}

TEST_CASE("times arrive, sysctls and IPVS timeouts in whole seconds") {
  const auto settings =
      settings_of({"--proxy-mode=ipvs", "--ipvs-sync-period=45s", "--drain-timeout=90s",
                   "--ipvs-tcp-timeout=15m", "--ipvs-tcpfin-timeout=1m500ms",
                   "--ipvs-udp-timeout=900ms", "--conntrack-max-per-core=1000",
                   "--conntrack-min=2000", "--conntrack-tcp-timeout-established=1h",
                   "--conntrack-tcp-timeout-close-wait=0s", "--conntrack-tcp-be-liberal",
                   "--conntrack-udp-timeout=30s", "--conntrack-udp-timeout-stream=1999ms"});
  CHECK(settings.node_name == "host.name");
  CHECK(settings.sync_period == 45s);
  CHECK(settings.drain.timeout == 90s);
  REQUIRE(settings.host);
  CHECK(settings.host->cpus == 4);
  CHECK(settings.host->settings.timeouts ==
        netlink::IpvsTimeouts{.tcp = 900, .tcp_fin = 60, .udp = 0});
  const auto& conntrack = settings.host->settings.conntrack;
  CHECK(conntrack.max_per_core == 1000);
  CHECK(conntrack.min == 2000);
  CHECK(conntrack.tcp_established_timeout == 3600);
  CHECK(conntrack.tcp_close_wait_timeout == 0);
  CHECK(conntrack.tcp_be_liberal);
  CHECK(conntrack.udp_timeout == 30);
  CHECK(conntrack.udp_stream_timeout == 1);
  CHECK_FALSE(settings_of({}).drain.timeout);
  CHECK(settings_of({}).early_flows);
  CHECK_FALSE(settings_of({"--kube-proxy-compat"}).early_flows);
}

TEST_CASE("IPv6 packets are not forwarded on a host without IPv6") {
  const auto host = [](const std::vector<std::string>& flags, const std::vector<Family>& families) {
    return settings_of(flags, families).host->settings.ipvs;
  };
  CHECK_FALSE(host({}, kTwoFamilies).ipv6_forwarding);
  CHECK(host({"--ipv6-forwarding"}, kTwoFamilies).ipv6_forwarding);
  CHECK_FALSE(host({"--ipv6-forwarding"}, {Family::ipv4}).ipv6_forwarding);
  CHECK(host({}, kTwoFamilies).estimators);
  CHECK_FALSE(host({"--ipvs-estimators=false"}, kTwoFamilies).estimators);
  CHECK_FALSE(host({}, kTwoFamilies).strict_arp);
  CHECK(host({"--ipvs-strict-arp"}, kTwoFamilies).strict_arp);
}

}  // namespace
}  // namespace ipvsproxier::cmd

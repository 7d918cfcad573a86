// NodeLocal DNS with its defaults: a link of another program has the cluster IP of the cluster DNS,
// and rules keep the packets to its port from connection tracking. Packets, and what is told.

#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/beside.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr const char* kDns = "10.96.0.10";
constexpr const char* kLinkLocal = "169.254.20.10";
constexpr std::uint16_t kDnsPort = 53;

// The daemon in nf_tables meets the rules that iptables-nft writes.
std::string iptables() {
  return on_nftables() ? "iptables-nft" : "iptables-legacy";
}

// The rules that node-local-dns writes for one address; `act` is -A or -D.
std::string rules_of(const std::string& address, const std::string& act) {
  std::string lines;
  for (const auto* protocol : {"udp", "tcp"})
    lines += fmt::format(
        "{0} -t raw {1} PREROUTING -d {2}/32 -p {3} --dport 53 -j NOTRACK\n"
        "{0} -t raw {1} OUTPUT -d {2}/32 -p {3} --dport 53 -j NOTRACK\n"
        "{0} -t raw {1} OUTPUT -s {2}/32 -p {3} --sport 53 -j NOTRACK\n"
        "{0} {1} INPUT -d {2}/32 -p {3} --dport 53 -j ACCEPT\n"
        "{0} {1} OUTPUT -s {2}/32 -p {3} --sport 53 -j ACCEPT\n",
        iptables(), act, address, protocol);
  return lines;
}

void write_rules(const Netns& netns, const std::string& act) {
  netns.inside([&] { shell("set -e\n" + rules_of(kLinkLocal, act) + rules_of(kDns, act)); });
}

void add_link(const Netns& netns) {
  netns.inside([] {
    shell(
        fmt::format("set -e; ip link add nodelocaldns type dummy; ip addr add {}/32 dev "
                    "nodelocaldns; ip addr add {}/32 dev nodelocaldns",
                    kLinkLocal, kDns));
  });
}

// The cluster DNS, with a port that the cache does not have; a Service with a node port; one of
// somebody who names the addresses of the cache.
void put_dns_services(TrafficBed& bed) {
  const auto endpoints = endpoints_of({&bed.cluster.local(), &bed.cluster.remote()});
  bed.manifests.put({.name = "dns",
                     .cluster_ips = {kDns},
                     .ports = {{.name = "dns", .protocol = Protocol::udp, .port = kDnsPort},
                               {.name = "dns-tcp", .protocol = Protocol::tcp, .port = kDnsPort},
                               {.name = "metrics", .protocol = Protocol::tcp, .port = 9153}},
                     .endpoints = endpoints});
  bed.manifests.put({.name = "web",
                     .type = "NodePort",
                     .cluster_ips = {"10.96.10.1"},
                     .ports = {{.name = "http", .node_port = 31100}},
                     .endpoints = endpoints});
  bed.manifests.put(
      {.name = "tenant",
       .cluster_ips = {"10.96.10.2"},
       .ports = {{.name = "u", .protocol = Protocol::udp, .port = kDnsPort}},
       .endpoints = endpoints,
       .spec = fmt::format("externalIPs: [\"{}\", \"{}\", 192.0.2.53]", kDns, kLinkLocal)});
}

std::vector<std::unique_ptr<EchoServer>> start_cache(const Cluster& cluster) {
  return serve_on_host(cluster, {ip(kDns), ip(kLinkLocal)}, kDnsPort);
}

std::string first_word(const std::string& text) {
  return text.substr(0, text.find(' '));
}

void check_by_cache(const Cluster& cluster) {
  for (const auto* from : std::vector<const Host*>{&cluster.node(), &cluster.local(2)})
    for (const auto protocol : {Protocol::udp, Protocol::tcp})
      for (const auto* to : {kDns, kLinkLocal})
        for (int i = 0; i < 4; ++i) {
          CAPTURE(from->name, to, to_string(protocol));
          CHECK(first_word(answer(*from, protocol, to, kDnsPort, 1000)) == "host");
        }
}

void check_the_rest_is_served(const Cluster& cluster) {
  for (const auto* from : std::vector<const Host*>{&cluster.node(), &cluster.local(2)}) {
    CAPTURE(from->name);
    const auto metrics = first_word(answer(*from, Protocol::tcp, kDns, 9153));
    CHECK((metrics == "local-1" || metrics == "remote-1"));
    const auto tenant = first_word(answer(*from, Protocol::udp, "10.96.10.2", kDnsPort));
    CHECK((tenant == "local-1" || tenant == "remote-1"));
  }
  // The same port of another address.
  const auto external = first_word(answer(cluster.client(), Protocol::udp, "192.0.2.53", kDnsPort));
  CHECK((external == "local-1" || external == "remote-1"));
  CHECK(answer(cluster.client(), Protocol::tcp, "10.200.0.2", 31100).find("-1 sees") !=
        std::string::npos);
}

TEST_CASE("kernel: NodeLocal DNS: its address and port are left to it", "[node_local_dns]") {
  TrafficBed bed;
  const auto& netns = bed.cluster.netns();
  add_link(netns);
  write_rules(netns, "-A");
  const auto cache = start_cache(bed.cluster);
  put_dns_services(bed);
  const auto flags = bed.manifests.flags();
  const auto check = netns.inside([&] {
    return shell(fmt::format("{} {} --check; true", ipvs_proxier_word(), fmt::join(flags, " ")));
  });
  INFO(check);
  CHECK(says(check, "link nodelocaldns"));
  CHECK(says(check, "NOTRACK"));

  bed.program();
  check_by_cache(bed.cluster);
  check_the_rest_is_served(bed.cluster);
  const auto services = virtual_services_in(netns);
  INFO(services);
  CHECK_FALSE(says(services, "10.96.0.10:53"));
  CHECK_FALSE(says(services, "169.254.20.10"));
  CHECK_FALSE(says(services, "10.96.0.10:31100"));
  CHECK(says(services, "10.96.0.10:9153"));
  CHECK(says(services, "10.200.0.2:31100"));
  CHECK_FALSE(says(fmt::format("{}", fmt::join(kernel_lines(netns), "\n")), "10.96.0.10,udp:53"));
}

TEST_CASE("kernel: NodeLocal DNS: a daemon follows its coming and going", "[node_local_dns]") {
  TrafficBed bed;
  const auto& netns = bed.cluster.netns();
  put_dns_services(bed);
  auto flags = bed.manifests.flags();
  const auto socket = (bed.manifests.folder().parent_path() / "control.sock").string();
  flags.insert(flags.end(), {"--control-socket", socket});
  Daemon daemon(netns, flags);
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  const auto ctl = [&](const std::string& words) {
    return netns.inside([&] {
      return shell(ipvsctl_word() + " " + words + " --control-socket " + socket + " 2>&1; true");
    });
  };
  CHECK(says(virtual_services_in(netns), "10.96.0.10:53"));

  write_rules(netns, "-A");
  add_link(netns);
  const auto cache = start_cache(bed.cluster);
  REQUIRE(eventually([&] { return !says(virtual_services_in(netns), "10.96.0.10:53"); }));
  REQUIRE(eventually([&] { return !says(virtual_services_in(netns), "169.254.20.10"); }));
  check_by_cache(bed.cluster);
  check_the_rest_is_served(bed.cluster);
  CHECK(daemon.logs("link nodelocaldns"));
  const auto status = ctl("status");
  INFO(status);
  CHECK(says(status, "link nodelocaldns"));
  const auto page = ctl("service default/dns");
  INFO(page);
  CHECK(says(page, "link nodelocaldns"));
  const auto explained = ctl("explain 10.96.0.10 10.96.0.10:53/udp");
  INFO(explained);
  CHECK(says(explained, "--notrack"));
  CHECK(says(explained, "a socket of this node takes 10.96.0.10:53"));

  netns.ip("link del nodelocaldns\n");
  write_rules(netns, "-D");
  REQUIRE(eventually([&] { return says(virtual_services_in(netns), "10.96.0.10:53"); }));
  const auto again = first_word(answer(bed.cluster.local(2), Protocol::udp, kDns, kDnsPort));
  CHECK((again == "local-1" || again == "remote-1"));
  CHECK(daemon.terminate() == 0);
}

// kube-proxy takes its packets all the same.
TEST_CASE("kernel: NodeLocal DNS: with --kube-proxy-compat it is told, and nothing else changes",
          "[node_local_dns]") {
  if (on_nftables()) return;
  TrafficBed bed;
  const auto& netns = bed.cluster.netns();
  add_link(netns);
  write_rules(netns, "-A");
  put_dns_services(bed);
  const auto run = run_once(netns, bed.manifests, {"--kube-proxy-compat"});
  INFO(run.log);
  CHECK(says(run.log, "link nodelocaldns"));
  const auto services = virtual_services_in(netns);
  CHECK(says(services, "10.96.0.10:53"));
  CHECK(says(services, "10.96.0.10:31100"));
  const auto explained = netns.inside(
      [] { return shell(ipvsctl_word() + " explain 10.200.0.2 10.96.0.10:53/udp 2>&1; true"); });
  INFO(explained);
  CHECK(says(explained, "connection tracking does not see it"));
  CHECK(says(explained, "10.96.0.10 unless its program chooses another"));
}

}  // namespace
}  // namespace ipvsproxier::test

#include "test/support/vectors.h"

#include <algorithm>

#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;
using Lines = std::vector<std::string>;

// E1 is on this node, E2 elsewhere; both are ready.
const EndpointManifest kLocal{ip("10.244.0.3"), "n1"};
const EndpointManifest kRemote{ip("10.244.1.4"), "n2"};
const Lines kBoth = {"10.244.0.3:8080", "10.244.1.4:8080"};
const Lines kFirst = {"10.244.0.3:8080"};
const Lines kSecond = {"10.244.1.4:8080"};

const char* const kAffinity =
    "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}";
const char* const kLocalPolicy = "externalTrafficPolicy: Local, healthCheckNodePort: 32000";

// Lines of Vector::state.
class State {
 public:
  // "-t 10.96.0.9:80", "-s rr"
  State& served(const std::string& key, const Lines& servers, const std::string& how = "-s rr") {
    lines_.push_back("-A " + key + " " + how);
    for (const auto& server : servers)
      lines_.emplace_back("-a ").append(key).append(" -r ").append(server).append(" -m -w 1");
    return *this;
  }
  State& in(const std::string& set, const Lines& elements) {
    for (const auto& element : elements)
      lines_.emplace_back("add ").append(set).append(" ").append(element);
    return *this;
  }
  State& bound(const std::string& address) {
    const bool v4 = address.find(':') == std::string::npos;
    lines_.push_back(v4 ? "inet " + address + "/32" : "inet6 " + address + "/128");
    return in(v4 ? "KUBE-IPVS-IPS" : "KUBE-6-IPVS-IPS", {address});
  }
  State& hairpin(const std::string& protocol = "tcp") {
    return in("KUBE-LOOP-BACK", {"10.244.0.3," + protocol + ":8080,10.244.0.3"});
  }
  operator Lines() const {
    auto lines = lines_;
    std::sort(lines.begin(), lines.end());
    return lines;
  }

 private:
  Lines lines_;
};

ServiceManifest web(std::vector<EndpointManifest> endpoints) {
  return {.cluster_ips = {"10.96.0.9"}, .endpoints = std::move(endpoints)};
}

// What a cluster IP has besides its real servers.
State cluster_ip(std::uint16_t port = 80) {
  return State()
      .bound("10.96.0.9")
      .in("KUBE-CLUSTER-IP", {"10.96.0.9,tcp:" + std::to_string(port)});
}

std::vector<Vector> of_cluster_ips() {
  auto local_only = web({kRemote});
  local_only.spec = "internalTrafficPolicy: Local";
  auto terminating = kLocal;
  terminating.conditions = "ready: false, serving: true, terminating: true";
  auto unready = kRemote;
  unready.conditions = "ready: false, serving: false, terminating: false";
  auto elsewhere = web({kLocal, kRemote});
  elsewhere.spec = "externalIPs: [198.51.100.20]";
  auto here = web({kLocal, kRemote});
  here.spec = "externalIPs: [10.0.0.1]";
  const std::string cluster_ips =
      "-m comment --comment \"Kubernetes service cluster ip + port for masquerade purpose\" -m set "
      "--match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ";
  const std::string external_ips =
      "-m comment --comment \"Kubernetes service external ip + port for masquerade and filter "
      "purpose\" -m set --match-set KUBE-EXTERNAL-IP dst,dst ";
  return {
      {.name = "2: a cluster IP without endpoints",
       .service = web({}),
       .state = cluster_ip().served("-t 10.96.0.9:80", {})},
      {.name = "1: a cluster IP",
       .service = web({kLocal, kRemote}),
       .state = cluster_ip().served("-t 10.96.0.9:80", kBoth).hairpin()},
      {.name = "11: internal policy Local without local endpoints",
       .service = local_only,
       .state = cluster_ip().served("-t 10.96.0.9:80", {}),
       .internal_lack = 1},
      {.name = "13: an external IP that is not the node's",
       .service = elsewhere,
       .state = cluster_ip()
                    .served("-t 10.96.0.9:80", kBoth)
                    .served("-t 198.51.100.20:80", kBoth)
                    .in("KUBE-EXTERNAL-IP", {"198.51.100.20,tcp:80"})
                    .bound("198.51.100.20")
                    .hairpin(),
       .rules = {{"KUBE-SERVICES",
                  {"-s 127.0.0.0/8 -j RETURN", "! -s 10.244.0.0/16 " + cluster_ips,
                   external_ips + "-j KUBE-MARK-MASQ",
                   external_ips +
                       "-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT",
                   external_ips + "-m addrtype --dst-type LOCAL -j ACCEPT",
                   "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
                   "-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT"}}}},
      {.name = "14: an external IP of the node",
       .service = here,
       .state = cluster_ip()
                    .served("-t 10.96.0.9:80", kBoth)
                    .served("-t 10.0.0.1:80", kBoth)
                    .in("KUBE-EXTERNAL-IP", {"10.0.0.1,tcp:80"})
                    .hairpin()},
      {.name = "17: serving and terminating where none is ready",
       .service = web({terminating, unready}),
       .state = cluster_ip().served("-t 10.96.0.9:80", kFirst).hairpin()},
  };
}

ServiceManifest node_port(std::vector<EndpointManifest> endpoints) {
  auto service = web(std::move(endpoints));
  service.type = "NodePort";
  service.ports.at(0).node_port = 30080;
  service.spec = kAffinity;
  return service;
}

// On every IPv4 address of the node.
State on_node_ports(State state, const std::string& port, const Lines& servers,
                    const std::string& how, const std::string& option = "-t ") {
  return state.served(option + "10.0.0.1:" + port, servers, how)
      .served(option + "10.244.0.1:" + port, servers, how);
}

std::vector<Vector> of_node_ports() {
  const std::string sticky = "-s rr -p 600";
  auto sctp = node_port({kLocal, kRemote});
  sctp.ports.at(0).protocol = Protocol::sctp;
  auto local_only = node_port({kRemote});
  local_only.spec = "internalTrafficPolicy: Local";
  auto dual = node_port({kLocal, kRemote});
  dual.cluster_ips.emplace_back("fd00:96::9");
  return {
      {.name = "3: a node port with affinity",
       .service = node_port({kLocal, kRemote}),
       .state = on_node_ports(cluster_ip().served("-t 10.96.0.9:80", kBoth, sticky), "30080", kBoth,
                              sticky)
                    .in("KUBE-NODE-PORT-TCP", {"30080"})
                    .hairpin()},
      {.name = "4: node ports on the primary address, of a family that has none on all",
       .service = dual,
       .node_port_primary = true,
       .state = cluster_ip()
                    .served("-t 10.96.0.9:80", kBoth, sticky)
                    .served("-t 10.0.0.1:30080", kBoth, sticky)
                    .in("KUBE-NODE-PORT-TCP", {"30080"})
                    .hairpin()
                    .served("-t [fd00:96::9]:80", {}, sticky)
                    .served("-t [fd00:1::1]:30080", {}, sticky)
                    .in("KUBE-6-CLUSTER-IP", {"fd00:96::9,tcp:80"})
                    .in("KUBE-6-NODE-PORT-TCP", {"30080"})
                    .bound("fd00:96::9")},
      {.name = "5: an SCTP node port",
       .service = sctp,
       .state =
           on_node_ports(State().served("--sctp-service 10.96.0.9:80", kBoth, sticky), "30080",
                         kBoth, sticky, "--sctp-service ")
               .bound("10.96.0.9")
               .in("KUBE-CLUSTER-IP", {"10.96.0.9,sctp:80"})
               .in("KUBE-NODE-PORT-SCTP-HASH", {"10.0.0.1,sctp:30080", "10.244.0.1,sctp:30080"})
               .hairpin("sctp")},
      {.name = "12: a node port and internal policy Local without local endpoints",
       .service = local_only,
       .state =
           on_node_ports(cluster_ip().served("-t 10.96.0.9:80", kSecond), "30080", kSecond, "-s rr")
               .in("KUBE-NODE-PORT-TCP", {"30080"}),
       .internal_lack = 1},
      {.name = "18: the scheduler mh, with affinity",
       .service = node_port({kLocal}),
       .scheduler = "mh",
       .state =
           on_node_ports(cluster_ip().served("-t 10.96.0.9:80", kFirst, "-s mh -p 600 -b mh-port"),
                         "30080", kFirst, "-s mh -p 600 -b mh-port")
               .in("KUBE-NODE-PORT-TCP", {"30080"})
               .hairpin()},
  };
}

ServiceManifest load_balancer(std::vector<EndpointManifest> endpoints, const std::string& spec) {
  auto service = web(std::move(endpoints));
  service.type = "LoadBalancer";
  service.ports.at(0).port = 443;
  service.ports.at(0).node_port = 30443;
  service.ingress_ips = {"192.0.2.10"};
  service.spec = spec;
  return service;
}

// Of a load balancer; `outside` serve those who come by its own address or a node port.
State balanced(const Lines& inside, const Lines& outside, const std::string& how = "-s rr") {
  return on_node_ports(cluster_ip(443).served("-t 10.96.0.9:443", inside, how), "30443", outside,
                       how)
      .served("-t 192.0.2.10:443", outside, how)
      .in("KUBE-LOAD-BALANCER", {"192.0.2.10,tcp:443"})
      .in("KUBE-NODE-PORT-TCP", {"30443"})
      .bound("192.0.2.10");
}

std::string ranges(const std::string& more) {
  return "loadBalancerSourceRanges: [203.0.113.0/24, 198.51.100.7/32" + more + "]";
}

// With the source ranges that ipset prints so.
State restricted(const Lines& networks) {
  auto state = balanced(kBoth, kBoth).in("KUBE-LOAD-BALANCER-FW", {"192.0.2.10,tcp:443"}).hairpin();
  for (const auto& network : networks)
    state.in("KUBE-LOAD-BALANCER-SOURCE-CIDR", {"192.0.2.10,tcp:443," + network});
  return state;
}

std::vector<Vector> of_source_ranges() {
  const std::string by_range =
      "-m comment --comment \"Kubernetes service load balancer ip + port + source cidr for packet "
      "filter purpose\" -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN";
  const std::string by_node =
      "-m comment --comment \"Kubernetes service load balancer ip + port + source IP for packet "
      "filter purpose\" -m set --match-set KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN";
  const std::string restrict =
      "-m comment --comment \"Kubernetes service load balancer ip + port for load balancer with "
      "sourceRange\" -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j "
      "KUBE-SOURCE-RANGES-FIREWALL";
  return {
      {.name = "6: source ranges without the node",
       .service = load_balancer({kLocal, kRemote}, ranges("")),
       .state = restricted({"203.0.113.0/24", "198.51.100.7"}),
       .rules = {{"KUBE-IPVS-OUT-FILTER",
                  {"-s 192.0.2.10/32 -m ipvs --vproto 6 --vaddr 192.0.2.10 --vport 443 -j DROP"}},
                 {"KUBE-PROXY-FIREWALL", {restrict}},
                 {"KUBE-SOURCE-RANGES-FIREWALL", {by_range, "-j DROP"}}}},
      {.name = "7: source ranges with the node",
       .service = load_balancer({kLocal, kRemote}, ranges(", 10.0.0.0/8")),
       .state = restricted({"203.0.113.0/24", "198.51.100.7", "10.0.0.0/8"})
                    .in("KUBE-LOAD-BALANCER-SOURCE-IP", {"192.0.2.10,tcp:443,192.0.2.10"}),
       .rules = {{"KUBE-IPVS-OUT-FILTER", {}},
                 {"KUBE-PROXY-FIREWALL", {restrict}},
                 {"KUBE-SOURCE-RANGES-FIREWALL", {by_range, by_node, "-j DROP"}}}},
      {.name = "8: source ranges with everybody",
       .service = load_balancer({kLocal, kRemote}, ranges(", 0.0.0.0/0")),
       .state = balanced(kBoth, kBoth).hairpin(),
       .rules = {{"KUBE-IPVS-OUT-FILTER", {}},
                 {"KUBE-PROXY-FIREWALL", {}},
                 {"KUBE-SOURCE-RANGES-FIREWALL", {"-j DROP"}}}},
  };
}

State keeping_clients(const Lines& inside, const Lines& outside) {
  return balanced(inside, outside)
      .in("KUBE-LOAD-BALANCER-LOCAL", {"192.0.2.10,tcp:443"})
      .in("KUBE-NODE-PORT-LOCAL-TCP", {"30443"})
      .in("KUBE-HEALTH-CHECK-NODE-PORT", {"32000"});
}

std::vector<Vector> of_load_balancers() {
  auto proxied = web({kLocal, kRemote});
  proxied.type = "LoadBalancer";
  proxied.spec = "allocateLoadBalancerNodePorts: false";
  proxied.more_ingress = {"{ip: 192.0.2.9, ipMode: Proxy}", "{hostname: x}"};
  return {
      {.name = "9: external policy Local",
       .service = load_balancer({kLocal, kRemote}, kLocalPolicy),
       .state = keeping_clients(kBoth, kFirst).hairpin(),
       .health = VectorHealth{.port = 32000, .status = 200, .weight = 1}},
      {.name = "10: external policy Local without local endpoints",
       .service = load_balancer({kRemote}, kLocalPolicy),
       .state = keeping_clients(kSecond, kSecond),
       .health = VectorHealth{.port = 32000, .status = 503, .weight = 0},
       .external_lack = 1},
      {.name = "15: ingress of mode Proxy, or a host name",
       .service = proxied,
       .state = cluster_ip().served("-t 10.96.0.9:80", kBoth).hairpin()},
      {.name = "18: the scheduler mh",
       .service = load_balancer({kLocal, kRemote}, ""),
       .scheduler = "mh",
       .state = balanced(kBoth, kBoth, "-s mh -b mh-port").hairpin()},
  };
}

}  // namespace

const std::vector<Vector>& vectors() {
  static const std::vector<Vector> kVectors = [] {
    std::vector<Vector> all;
    for (auto&& some : {of_cluster_ips(), of_node_ports(), of_source_ranges(), of_load_balancers()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return kVectors;
}

}  // namespace ipvsproxier::test

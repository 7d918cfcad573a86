// A Service whose external policy changes, or the way of its in-cluster clients: between any two
// phases nobody is refused, nobody inside is dropped, and no packet of a client outside goes to
// another node with its own source, for its answer would not come back through this one.

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "test/support/kernel_model.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using ipset::SetId;
using netlink::Family;
using netlink::Protocol;
using netlink::VirtualServiceKey;
using test::e1;
using test::e2;

// What the kernel does with new connections to one virtual service.
class Walk {
 public:
  Walk(const ActualState& kernel, const VirtualServiceKey& key) : kernel_(kernel), key_(key) {}

  bool drops_outside() const { return verdict() == ipset::ServiceVerdict::absent; }
  bool has_ranges() const { return in_map() && in_map()->restricted; }
  bool masquerades_outside() const {
    if (verdict()) return verdict() == ipset::ServiceVerdict::mark;
    const ipset::Element port =
        key_.protocol == Protocol::sctp ? ipset::Element{own()} : ipset::PortElement{key_.port};
    const auto masquerades = [&](SetId all, SetId but, const ipset::Element& element) {
      return has(all, element) && !has(but, element);
    };
    switch (key_.protocol) {
      case Protocol::tcp:
        if (masquerades(SetId::node_port_tcp, SetId::node_port_local_tcp, port)) return true;
        break;
      case Protocol::udp:
        if (masquerades(SetId::node_port_udp, SetId::node_port_local_udp, port)) return true;
        break;
      case Protocol::sctp:
        if (masquerades(SetId::node_port_sctp_hash, SetId::node_port_local_sctp_hash, port))
          return true;
    }
    return masquerades(SetId::load_balancer, SetId::load_balancer_local, own()) ||
           has(SetId::external_ip, own());
  }
  // Where in-cluster clients are sent.
  std::optional<VirtualServiceKey> way() const {
    if (const auto* map = elements(SetId::nft_in_cluster))
      for (const auto& element : *map) {
        const auto& one = std::get<ipset::DestinationElement>(element);
        if (key_ == VirtualServiceKey{one.ip, one.protocol, one.port})
          return VirtualServiceKey{one.to, one.protocol, one.to_port};
      }
    return std::nullopt;
  }
  static std::vector<std::string> servers_for_new(const ActualState& kernel,
                                                  const VirtualServiceKey& key) {
    std::vector<std::string> servers;
    const auto found = kernel.services->find(key);
    if (found == kernel.services->end()) return servers;
    for (const auto& server : *found->second.servers)
      if (server.weight > 0) servers.push_back(server.key.address.to_string());
    return servers;
  }

  void check() const {
    const auto here = e1().address.to_string();
    const auto servers = servers_for_new(kernel_, key_);
    if (!drops_outside()) {
      CHECK_FALSE(servers.empty());
      const bool some_elsewhere =
          std::ranges::any_of(servers, [&](const auto& one) { return one != here; });
      if (some_elsewhere) CHECK(masquerades_outside());
    }
    const auto to = way();
    CHECK((to || !drops_outside()));
    CHECK_FALSE(servers_for_new(kernel_, to.value_or(key_)).empty());
  }

 private:
  ipset::IpPortElement own() const { return {key_.address, key_.protocol, key_.port}; }
  const ipset::ElementSet* elements(SetId set) const {
    const auto found = kernel_.sets.find({Family::ipv4, set});
    return found == kernel_.sets.end() || !found->second ? nullptr : &*found->second;
  }
  bool has(SetId set, const ipset::Element& element) const {
    const auto* all = elements(set);
    return all != nullptr && all->contains(element) && is_consulted(set);
  }
  bool is_consulted(SetId set) const {
    const auto name = ipset::set_name(set, Family::ipv4);
    for (const auto& [table, rules] : kernel_.rules)
      for (const auto& chain : rules.chains)
        for (const auto& rule : chain.rules)
          if (std::ranges::count(ipset::looked_up_by(rule), name) > 0) return true;
    return false;
  }
  std::optional<ipset::ServiceElement> in_map() const {
    const auto* all = elements(SetId::nft_services);
    if (all == nullptr) return std::nullopt;
    for (const auto& element : *all) {
      const auto& one = std::get<ipset::ServiceElement>(element);
      if (key_ == VirtualServiceKey{one.ip, one.protocol, one.port}) return one;
    }
    return std::nullopt;
  }
  std::optional<ipset::ServiceVerdict> verdict() const {
    const auto element = in_map();
    return element ? std::optional(element->verdict) : std::nullopt;
  }

  const ActualState& kernel_;
  const VirtualServiceKey& key_;
};

// What of the Service and the options a case changes.
struct Shape {
  std::string name;
  bool local = true;
  bool internal_local = false;
  bool wanted = true;  // the option
  const char* cluster_ip = "10.96.0.9";
  bool ranges = false;
};

// With iptables, as with kube-proxy, a node without an endpoint serves clients outside by those
// elsewhere, whose answers go astray.
std::vector<std::vector<api::Endpoint>> endpoints_to_try(ipset::PacketFilter filter) {
  if (filter == ipset::PacketFilter::iptables) return {{e1(), e2()}};
  return {{e1(), e2()}, {e2()}};
}

class ChangingPolicy {
 public:
  explicit ChangingPolicy(ipset::PacketFilter filter, Protocol protocol,
                          std::vector<api::Endpoint> endpoints)
      : filter_(filter), protocol_(protocol), endpoints_(std::move(endpoints)) {}

  DesiredState state(const Shape& shape) const { return state(shape, endpoints_); }

  DesiredState state(const Shape& shape, const std::vector<api::Endpoint>& endpoints) const {
    auto service = test::local_load_balancer();
    service.external_policy_local = shape.local;
    service.internal_policy_local = shape.internal_local;
    service.cluster_ips = {test::ip(shape.cluster_ip)};
    service.external_ips = {test::ip("192.0.2.20")};
    if (shape.ranges) service.source_ranges = {test::prefix("198.51.100.0/24")};
    for (auto& port : service.ports) port.protocol = protocol_;
    auto options = test::vector_options();
    options.packet_filter = filter_;
    options.differences = {};
    options.differences.in_cluster_clients = shape.wanted;
    options.drain_deleted_services = true;
    options.node_port_addresses = {test::prefix("10.0.0.0/24")};
    options.in_cluster_ranges = {test::prefix("240.0.0.0/4")};
    const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, endpoints)});
    return plan(cluster, test::vector_node(), options).state;
  }

  // As the kernel is when all of the shape is there.
  test::KernelModel kernel_of(const Shape& shape) const {
    const auto before = state(shape);
    auto kernel = test::KernelModel::empty_for(before);
    kernel.apply(diff(before, kernel.state));
    return kernel;
  }

  // The transaction for a kernel of which `seen` is known.
  void walk(const DesiredState& after, const ActualState& seen, test::KernelModel& kernel) const {
    for (const auto& phase : diff(after, seen).phases) {
      kernel.apply(phase);
      INFO("after phase \"" << phase.name << "\"");
      check(kernel.state);
    }
    CHECK(kernel.violations == 0);
  }

  // `spoil` makes less known, before all is.
  template <typename Spoil>
  void run(const Shape& from, const Shape& to, Spoil spoil) const {
    auto kernel = kernel_of(from);
    auto after = state(to);
    auto seen = kernel.state;
    spoil(after, seen);
    walk(after, seen, kernel);
    finish(to, kernel);
  }
  void run(const Shape& from, const Shape& to) const {
    auto kernel = kernel_of(from);
    check(kernel.state);
    finish(to, kernel);
  }

  void finish(const Shape& to, test::KernelModel& kernel) const {
    const auto after = state(to);
    walk(after, kernel.state, kernel);
    kernel.finish_drains(after);
    kernel.apply(diff(after, kernel.state));
    CHECK(diff(after, kernel.state).empty());
    check(kernel.state);
  }

 private:
  void check(const ActualState& kernel) const {
    for (const auto& [address, port] :
         {std::pair("192.0.2.10", 443), {"192.0.2.20", 443}, {"10.0.0.1", 30443}}) {
      INFO(address << " " << port);
      Walk(kernel, {test::ip(address), protocol_, static_cast<std::uint16_t>(port)}).check();
    }
  }

  ipset::PacketFilter filter_;
  Protocol protocol_;
  std::vector<api::Endpoint> endpoints_;
};

TEST_CASE("policy changes: nobody is refused or astray between two phases") {
  const std::vector<Shape> shapes{
      {.name = "Local"},
      {.name = "Cluster", .local = false},
      {.name = "Local with another cluster IP", .cluster_ip = "10.96.0.77"},
      {.name = "both Local", .internal_local = true},
      {.name = "internal Local", .local = false, .internal_local = true}};
  for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables})
    for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp})
      for (const auto& endpoints : endpoints_to_try(filter))
        for (const auto& from : shapes)
          for (const auto& to : shapes) {
            INFO(ipset::to_string(filter)
                 << ", " << netlink::to_string(protocol) << ", " << endpoints.size()
                 << " endpoints: from " << from.name << " to " << to.name);
            ChangingPolicy(filter, protocol, endpoints).run(from, to);
          }
}

// What is not known of the kernel, or of the objects, is concluded from by nobody.
TEST_CASE("policy changes: nobody is refused or astray while a part is unknown") {
  const std::vector<Shape> shapes{
      {.name = "Local"},
      {.name = "Cluster", .local = false},
      {.name = "Local with another cluster IP", .cluster_ip = "10.96.0.77"}};
  const auto run = [&](const char* what, auto spoil) {
    for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables})
      for (const auto protocol : {Protocol::tcp, Protocol::udp})
        for (const auto& endpoints : endpoints_to_try(filter))
          for (const auto& from : shapes)
            for (const auto& to : shapes) {
              // The old cluster IP goes, though its clients cannot be served by the address yet.
              if (what == std::string_view("real servers") && !to.local &&
                  from.cluster_ip != to.cluster_ip)
                continue;
              INFO(what << ", " << ipset::to_string(filter) << ", " << netlink::to_string(protocol)
                        << ", " << endpoints.size() << " endpoints: from " << from.name << " to "
                        << to.name);
              ChangingPolicy(filter, protocol, endpoints).run(from, to, spoil);
            }
  };
  run("objects", [](DesiredState& after, ActualState& /*seen*/) { after.complete = false; });
  run("virtual services",
      [](DesiredState& /*after*/, ActualState& seen) { seen.services.reset(); });
  run("real servers", [](DesiredState& /*after*/, ActualState& seen) {
    for (auto& [key, service] : *seen.services)
      if (key.address != test::ip("10.96.0.9")) service.servers.reset();
  });
}

// What serves clients outside may be an endpoint here that cannot be read.
TEST_CASE("policy Local: nobody is dropped while an endpoint that cannot be read may be here") {
  const Shape local{.name = "Local"};
  const bool complete = GENERATE(false, true);
  {
    INFO((complete ? "held" : "incomplete"));
    const ChangingPolicy policy(ipset::PacketFilter::nftables, Protocol::tcp, {e1(), e2()});
    auto kernel = policy.kernel_of(local);
    auto after = policy.state(local, {e2()});
    after.complete = complete;
    const VirtualServiceKey vip{test::ip("192.0.2.10"), Protocol::tcp, 443};
    for (const auto& [key, service] : *kernel.state.services)
      if (complete) after.leftovers.servers.insert({key, {e1().address, 8080}});
    policy.walk(after, kernel.state, kernel);
    CHECK_FALSE(Walk(kernel.state, vip).drops_outside());
    after.leftovers = {};
    after.complete = true;
    policy.walk(after, kernel.state, kernel);
    CHECK(Walk(kernel.state, vip).drops_outside());
  }
}

TEST_CASE("policy Local: an endpoint elsewhere that cannot be read goes on to see the node") {
  for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables}) {
    INFO(ipset::to_string(filter));
    const ChangingPolicy policy(filter, Protocol::tcp, {e1(), e2()});
    auto kernel = policy.kernel_of({.name = "Cluster", .local = false});
    auto after = policy.state({.name = "Local"}, {e1()});
    for (const auto& [key, service] : *kernel.state.services)
      after.leftovers.servers.insert({key, {e2().address, 8080}});
    policy.walk(after, kernel.state, kernel);
    after.leftovers = {};
    policy.walk(after, kernel.state, kernel);
    CHECK_FALSE(
        Walk(kernel.state, {test::ip("192.0.2.10"), Protocol::tcp, 443}).masquerades_outside());
  }
}

TEST_CASE("policy changes: with nf_tables new source ranges wait for no real server") {
  const Shape open{.name = "Cluster", .local = false};
  const Shape dropping{.name = "Local"};
  const Shape ranges{.name = "Local with ranges", .ranges = true};
  const VirtualServiceKey vip{test::ip("192.0.2.10"), Protocol::tcp, 443};
  for (const auto& endpoints : {std::vector{e1(), e2()}, std::vector{e2()}, std::vector{e1()}})
    for (const auto& from : {open, dropping}) {
      INFO(endpoints.size() << " endpoints, from " << from.name);
      const ChangingPolicy policy(ipset::PacketFilter::nftables, Protocol::tcp, endpoints);
      auto kernel = policy.kernel_of(from);
      const auto before = kernel.state;
      policy.run(from, ranges);
      const auto after = policy.state(ranges);
      bool added = false;
      for (const auto& phase : diff(after, before).phases) {
        kernel.apply(phase);
        added = added || phase.name == "add elements";
        INFO("after phase \"" << phase.name << "\"");
        CHECK(Walk(kernel.state, vip).has_ranges() == added);
      }
      CHECK(added);
    }
}

// Without the option a node without an endpoint serves clients outside by those elsewhere, whose
// answers go astray; with one here all is well.
TEST_CASE("policy changes: the option comes and goes under a Service with an endpoint here") {
  const Shape with{.name = "with"};
  const Shape without{.name = "without", .wanted = false};
  for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables})
    for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp}) {
      INFO(ipset::to_string(filter) << ", " << netlink::to_string(protocol));
      ChangingPolicy(filter, protocol, {e1(), e2()}).run(with, without);
      ChangingPolicy(filter, protocol, {e1(), e2()}).run(without, with);
    }
}

}  // namespace
}  // namespace ipvsproxier::plan

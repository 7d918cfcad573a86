#include "cmd/ipvsctl/names/element_owners.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/listing/set_listing.h"
#include "ipset/sets/set_catalog.h"
#include "proxier/inspect/name_page.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::ctl {
namespace {

using ipset::SetId;
using netlink::Family;
using netlink::Protocol;
using test::ip;

// default/web with every facet and all that sets are for, of both families, and default/api with a
// port of the same external IP.
model::ClusterState owned_cluster() {
  auto web = test::web_service();
  web.type = api::ServiceType::load_balancer;
  web.cluster_ips = {ip("10.96.0.9"), ip("fd00:96::9")};
  web.ip_families = {Family::ipv4, Family::ipv6};
  web.ports = {{.name = "http", .port = 80, .node_port = 30080},
               {.name = "dns", .protocol = Protocol::udp, .port = 53, .node_port = 30053},
               {.name = "sig", .protocol = Protocol::sctp, .port = 36412, .node_port = 30412}};
  web.external_ips = {ip("192.0.2.7")};
  web.load_balancer_ips = {ip("198.51.100.7")};
  web.source_ranges = {test::prefix("10.0.0.0/8"), test::prefix("203.0.113.0/24")};
  web.external_policy_local = true;
  web.health_check_node_port = 32100;
  auto slice = test::slice_of(web, 8080, {test::e1(), test::e2()});
  slice.ports.push_back({"dns", Protocol::udp, 5353});
  auto api = test::web_service();
  api.name = {"default", "api"};
  api.cluster_ips = {ip("10.96.0.10")};
  api.ports.front().port = 443;
  api.external_ips = {ip("192.0.2.7")};
  return test::cluster_of({web, slice, api, test::slice_of(api, 8080, {test::e1()})});
}

// What a daemon on node n1 wants, and what it calls that.
struct PlannedSets {
  model::ClusterState cluster = owned_cluster();
  plan::Planner planner{{.families = {Family::ipv4, Family::ipv6}}};
  ClusterNames names;

  PlannedSets() {
    planner.set_node(test::vector_node());
    planner.update_all(cluster);
    REQUIRE(names.take_page(inspect::name_page(cluster, planner, {}, 1'000'000)).value().empty());
  }
  std::string owners(SetId id, const ipset::Element& element) const {
    return owners_text(ElementOwners({Family::ipv4, id}, names).of(element));
  }
};

TEST_CASE("every element that is wanted has an owner") {
  const PlannedSets planned;
  std::set<SetId> seen;
  for (const auto& [key, elements] : planned.planner.desired().sets) {
    const ElementOwners owners(key, planned.names);
    for (const auto& element : elements) {
      INFO(ipset::set_name(key.id, key.family) << " " << to_string(element));
      CHECK_FALSE(owners.of(element).empty());
      seen.insert(key.id);
    }
  }
  // With a local policy there are no elements for the other.
  for (const auto id : ipset::kSetIds) {
    INFO(ipset::set_name(id, Family::ipv4));
    CHECK(seen.contains(id));
  }
}

TEST_CASE("owners of elements: by virtual service, node port, address, endpoint, health check") {
  const PlannedSets planned;
  using namespace ipset;
  const auto vip = ip("198.51.100.7");
  CHECK(planned.owners(SetId::cluster_ip, IpPortElement{ip("10.96.0.9"), Protocol::tcp, 80}) ==
        "default/web:http");
  CHECK(planned.owners(SetId::cluster_ip, IpPortElement{ip("10.96.0.9"), Protocol::udp, 80}) ==
        "-");
  CHECK(planned.owners(SetId::load_balancer_source_cidr,
                       IpPortNetElement{vip, Protocol::udp, 53, test::prefix("10.0.0.0/8")}) ==
        "default/web:dns");
  CHECK(planned.owners(SetId::load_balancer_source_ip,
                       IpPortIpElement{vip, Protocol::tcp, 80, vip}) == "default/web:http");
  CHECK(planned.owners(SetId::node_port_tcp, PortElement{30080}) == "default/web:http");
  CHECK(planned.owners(SetId::node_port_udp, PortElement{30080}) == "-");
  CHECK(planned.owners(SetId::node_port_local_udp, PortElement{30053}) == "default/web:dns");
  CHECK(planned.owners(SetId::node_port_sctp_hash,
                       IpPortElement{ip("10.0.0.1"), Protocol::sctp, 30412}) == "default/web:sig");
  // Two Services share an external IP, and a pod.
  CHECK(planned.owners(SetId::ipvs_ips, IpElement{ip("192.0.2.7")}) == "default/api, default/web");
  CHECK(planned.owners(SetId::ipvs_ips, IpElement{ip("10.96.0.10")}) == "default/api");
  CHECK(planned.owners(SetId::ipvs_ips, IpElement{ip("10.0.0.1")}) == "-");
  const auto pod = ip("10.244.0.3");
  CHECK(planned.owners(SetId::loop_back, IpPortIpElement{pod, Protocol::tcp, 8080, pod}) ==
        "default/api, default/web");
  CHECK(planned.owners(SetId::loop_back, IpPortIpElement{pod, Protocol::udp, 5353, pod}) ==
        "default/web");
  CHECK(planned.owners(SetId::loop_back, IpPortIpElement{pod, Protocol::tcp, 9, pod}) == "-");
  CHECK(planned.owners(SetId::health_check_node_port, PortElement{32100}) == "default/web");
}

TEST_CASE("owners of elements of nf_tables: whatever the verdict, the range or the port") {
  const PlannedSets planned;
  using namespace ipset;
  const auto vip = ip("198.51.100.7");
  for (const auto verdict : {ServiceVerdict::keep, ServiceVerdict::foreign})
    CHECK(planned.owners(SetId::nft_services, ServiceElement{ip("10.96.0.9"), Protocol::tcp, 80,
                                                             verdict}) == "default/web:http");
  CHECK(planned.owners(SetId::nft_services, ServiceElement{ip("10.96.0.9"), Protocol::udp, 80,
                                                           ServiceVerdict::keep}) == "-");
  CHECK(planned.owners(SetId::nft_source_ranges,
                       IpPortNetElement{vip, Protocol::udp, 53, test::prefix("10.0.0.0/8")}) ==
        "default/web:dns");
  CHECK(planned.owners(SetId::nft_vips, IpElement{ip("192.0.2.7")}) == "default/api, default/web");
  CHECK(planned.owners(SetId::nft_hairpins, IpElement{ip("10.244.0.3")}) ==
        "default/api, default/web");
  CHECK(planned.owners(SetId::nft_hairpins, IpElement{vip}) == "-");
  CHECK(planned.owners(SetId::nft_health_ports, PortElement{32100}) == "default/web");
  for (const auto id : kNftSetIds)
    CHECK(ElementOwners({Family::ipv4, id}, planned.names).knows_all() ==
          (id == SetId::nft_services || id == SetId::nft_source_ranges ||
           id == SetId::nft_in_cluster || id == SetId::nft_on_links || id == SetId::nft_localhost));
}

ipset::ListedSet two_elements() {
  return {.spec = {.name = "KUBE-CLUSTER-IP", .kind = ipset::SetKind::hash_ip_port},
          .elements = {ipset::IpPortElement{ip("10.96.0.9"), Protocol::tcp, 80},
                       ipset::IpPortElement{ip("10.96.0.123"), Protocol::tcp, 1}}};
}

TEST_CASE("owners of elements: behind them, and beside them in a document") {
  const PlannedSets planned;
  const ElementOwners owners(our_set("KUBE-CLUSTER-IP").value(), planned.names);
  CHECK(elements_text(two_elements(), SetFormat::text, &owners) ==
        "10.96.0.9,tcp:80  default/web:http\n"
        "10.96.0.123,tcp:1 -: no Service has it\n");
  const auto document =
      nlohmann::json::parse(elements_text(two_elements(), SetFormat::json, &owners));
  CHECK(document["elements"] == nlohmann::json::array({"10.96.0.9,tcp:80", "10.96.0.123,tcp:1"}));
  CHECK(document["owners"] == nlohmann::json({{"10.96.0.9,tcp:80", {"default/web:http"}},
                                              {"10.96.0.123,tcp:1", nlohmann::json::array()}}));
}

TEST_CASE("owners of elements: where others than the known Services may have some, none is told") {
  const PlannedSets planned;
  const ipset::ListedSet set{
      .spec = {.name = "KUBE-IPVS-IPS"},
      .elements = {ipset::IpElement{ip("10.96.0.9")}, ipset::IpElement{ip("10.9.9.9")}}};
  const ElementOwners owners(our_set("KUBE-IPVS-IPS").value(), planned.names);
  CHECK(elements_text(set, SetFormat::text, &owners) == "10.96.0.9 default/web\n10.9.9.9  -\n");
  const auto document = nlohmann::json::parse(elements_text(set, SetFormat::json, &owners));
  CHECK(document["owners"] == nlohmann::json({{"10.96.0.9", {"default/web"}}}));
}

TEST_CASE("our sets by their names") {
  CHECK(our_set("KUBE-6-LOOP-BACK") == plan::SetKey{Family::ipv6, SetId::loop_back});
  CHECK_FALSE(our_set("KUBE-7-LOOP-BACK"));
  CHECK(our_set("ip6 kube-ipvs vips") == plan::SetKey{Family::ipv6, SetId::nft_vips});
  const plan::SetKey ranges{Family::ipv4, SetId::nft_source_ranges};
  CHECK(our_set("ip kube-ipvs restricted") == ranges);
  CHECK(our_set("ip kube-ipvs ranges_192.0.2.1_tcp_80") == ranges);
  CHECK_FALSE(our_set("ip6 kube-ipvs ranges_192.0.2.1_tcp_80"));
  CHECK_FALSE(our_set("ip kube-ipvs else"));
  CHECK(set_name_of("ip6/kube-ipvs/vips") == "ip6 kube-ipvs vips");
  CHECK(set_name_of("KUBE-IPVS-IPS") == "KUBE-IPVS-IPS");
  CHECK(set_name_of("other/set") == "other/set");
}

}  // namespace
}  // namespace ipvsproxier::ctl

#include "ipset/sets/set_catalog.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

namespace ipvsproxier::ipset {
namespace {

struct Expected {
  std::string ipv4;
  std::string ipv6;
  std::string kind;
};

const std::map<SetId, Expected> kExpected = {
    {SetId::loop_back, {"KUBE-LOOP-BACK", "KUBE-6-LOOP-BACK", "hash:ip,port,ip"}},
    {SetId::cluster_ip, {"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP", "hash:ip,port"}},
    {SetId::external_ip, {"KUBE-EXTERNAL-IP", "KUBE-6-EXTERNAL-IP", "hash:ip,port"}},
    {SetId::external_ip_local,
     {"KUBE-EXTERNAL-IP-LOCAL", "KUBE-6-EXTERNAL-IP-LOCAL", "hash:ip,port"}},
    {SetId::load_balancer, {"KUBE-LOAD-BALANCER", "KUBE-6-LOAD-BALANCER", "hash:ip,port"}},
    {SetId::load_balancer_fw, {"KUBE-LOAD-BALANCER-FW", "KUBE-6-LOAD-BALANCER-FW", "hash:ip,port"}},
    {SetId::load_balancer_local,
     {"KUBE-LOAD-BALANCER-LOCAL", "KUBE-6-LOAD-BALANCER-LOCAL", "hash:ip,port"}},
    {SetId::load_balancer_source_ip,
     {"KUBE-LOAD-BALANCER-SOURCE-IP", "KUBE-6-LOAD-BALANCER-SOURCE-IP", "hash:ip,port,ip"}},
    {SetId::load_balancer_source_cidr,
     {"KUBE-LOAD-BALANCER-SOURCE-CIDR", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "hash:ip,port,net"}},
    {SetId::node_port_tcp, {"KUBE-NODE-PORT-TCP", "KUBE-6-NODE-PORT-TCP", "bitmap:port"}},
    {SetId::node_port_local_tcp,
     {"KUBE-NODE-PORT-LOCAL-TCP", "KUBE-6-NODE-PORT-LOCAL-TCP", "bitmap:port"}},
    {SetId::node_port_udp, {"KUBE-NODE-PORT-UDP", "KUBE-6-NODE-PORT-UDP", "bitmap:port"}},
    {SetId::node_port_local_udp,
     {"KUBE-NODE-PORT-LOCAL-UDP", "KUBE-6-NODE-PORT-LOCAL-UDP", "bitmap:port"}},
    {SetId::node_port_sctp_hash,
     {"KUBE-NODE-PORT-SCTP-HASH", "KUBE-6-NODE-PORT-SCTP-HASH", "hash:ip,port"}},
    {SetId::node_port_local_sctp_hash,
     {"KUBE-NODE-PORT-LOCAL-SCTP-HASH", "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS", "hash:ip,port"}},
    {SetId::health_check_node_port,
     {"KUBE-HEALTH-CHECK-NODE-PORT", "KUBE-6-HEALTH-CHECK-NODE-PORT", "bitmap:port"}},
    {SetId::ipvs_ips, {"KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS", "hash:ip"}},
};

TEST_CASE("the capacity of a set is kube-proxy's as long as that is enough") {
  CHECK(capacity_for(0) == 65536);
  CHECK(capacity_for(65536) == 65536);
  CHECK(capacity_for(65537) == 131072);
  CHECK(capacity_for(131073) == 262144);
  CHECK(capacity_for(std::size_t{1} << 40) == 16777216);
  CHECK(set_spec(SetId::cluster_ip, Family::ipv4, 131072) == SetSpec{.name = "KUBE-CLUSTER-IP",
                                                                     .kind = SetKind::hash_ip_port,
                                                                     .hash_size = 32768,
                                                                     .max_elements = 131072});
  CHECK(set_spec(SetId::node_port_tcp, Family::ipv4, 131072) ==
        set_spec(SetId::node_port_tcp, Family::ipv4));
}

TEST_CASE("set names and kinds are kube-proxy's") {
  REQUIRE(kExpected.size() == kSetIds.size());
  for (const SetId id : kSetIds) {
    const Expected& expected = kExpected.at(id);
    CHECK(set_name(id, Family::ipv4) == expected.ipv4);
    CHECK(set_name(id, Family::ipv6) == expected.ipv6);
    CHECK(to_string(set_spec(id, Family::ipv4).kind) == expected.kind);
    CHECK(to_string(set_spec(id, Family::ipv6).kind) == expected.kind);
  }
}

TEST_CASE("all 34 set names differ and fit into the kernel's 31 bytes") {
  std::set<std::string> names;
  for (const Family family : {Family::ipv4, Family::ipv6}) {
    for (const SetId id : kSetIds) {
      const std::string name = set_name(id, family);
      CHECK(name.size() <= 31);
      names.insert(name);
    }
  }
  CHECK(names.size() == 34);
}

TEST_CASE("a set's specification carries its family and the default sizes") {
  CHECK(set_spec(SetId::cluster_ip, Family::ipv6) == SetSpec{.name = "KUBE-6-CLUSTER-IP",
                                                             .kind = SetKind::hash_ip_port,
                                                             .family = Family::ipv6,
                                                             .hash_size = 1024,
                                                             .max_elements = 65536});
  CHECK(set_spec(SetId::node_port_tcp, Family::ipv6).family == Family::ipv6);
}

TEST_CASE("set comments are those of the rules") {
  CHECK(set_comment(SetId::loop_back) ==
        "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose");
  CHECK(set_comment(SetId::node_port_local_sctp_hash) ==
        "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'");
  CHECK(set_comment(SetId::health_check_node_port) == "Kubernetes health check node port");
  std::set<std::string_view> texts;
  for (const SetId id : kSetIds) texts.insert(set_comment(id));
  CHECK(texts.size() == kSetIds.size());
}

}  // namespace
}  // namespace ipvsproxier::ipset

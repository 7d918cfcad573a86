#include "cmd/ipvsctl/listing/set_listing.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {
namespace {

using namespace ipset;
using netlink::IpAddress;

ListedSet cluster_ips() {
  return {.spec = {.name = "KUBE-CLUSTER-IP", .kind = SetKind::hash_ip_port},
          .elements = {IpPortElement{.ip = *IpAddress::parse("10.96.0.1"), .port = 443},
                       IpPortElement{.ip = *IpAddress::parse("10.96.0.10"),
                                     .protocol = netlink::Protocol::udp,
                                     .port = 53}}};
}

// Knows two sets, one of ours and one of somebody else's.
class TwoSets final : public SetTable {
 public:
  Status ensure(const SetSpec& /*spec*/) override { return {}; }
  Result<std::optional<ListedSet>> list(const std::string& name) override {
    if (name == fails_) return netlink::Error{netlink::ErrorKind::unsupported, 0, name};
    if (name == "KUBE-CLUSTER-IP") return std::optional(cluster_ips());
    if (name == "other") return std::optional(ListedSet{.spec = {.name = "other"}});
    return std::optional<ListedSet>{};
  }
  std::vector<Status> apply(const SetSpec& /*spec*/, std::span<const ElementOp> /*ops*/) override {
    return {};
  }
  Status destroy(const std::string& /*name*/) override { return {}; }
  std::string fails_;
};

TEST_CASE("sets: those of ours that exist; a failure is told") {
  TwoSets table;
  const auto sets = list_sets(table, PacketFilter::iptables);
  REQUIRE(sets);
  REQUIRE(sets->size() == 1);
  CHECK(sets->front().spec.name == "KUBE-CLUSTER-IP");
  table.fails_ = set_name(SetId::ipvs_ips, netlink::Family::ipv6);
  CHECK_FALSE(list_sets(table, PacketFilter::iptables));
}

TEST_CASE("sets: a line for each, and a document") {
  CHECK(sets_text({.sets = {cluster_ips()}}, SetFormat::text) ==
        "Name                            Type            Family Elements     Most\n"
        "KUBE-CLUSTER-IP                 hash:ip,port    IPv4          2    65536\n");
  const auto document =
      nlohmann::json::parse(sets_text({.sets = {cluster_ips()}}, SetFormat::json));
  REQUIRE(document["sets"].size() == 1);
  CHECK(document["sets"][0]["elementCount"] == 2);
  CHECK(document["sets"][0]["type"] == "hash:ip,port");
  CHECK(sets_text({}, SetFormat::yaml) == "sets: []\n");
  CHECK(sets_text({}, SetFormat::text)
            .ends_with("Most\nneither iptables nor nf_tables has sets of ours\n"));
}

TEST_CASE("sets: those of nf_tables have no limit; what is left over or of others is told") {
  const SetListing listing{
      .sets = {{.spec = set_spec(SetId::nft_source_ranges, netlink::Family::ipv6)}},
      .leftovers = {cluster_ips()},
      .foreign = {{.family = netlink::Family::ipv6, .name = "x\x1b[2J"}}};
  CHECK(sets_text(listing, SetFormat::text) ==
        "Name                            Type            Family Elements     Most\n"
        "ip6 kube-ipvs restricted        source ranges   IPv6          0        -\n"
        "KUBE-CLUSTER-IP                 hash:ip,port    IPv4          2    65536  # LEFT OVER\n"
        "ip6 kube-ipvs x\\u001b[2J: NOT OURS\n");
  const auto document = nlohmann::json::parse(sets_text(listing, SetFormat::json));
  CHECK(document["foreignSets"][0]["name"] == "x\x1b[2J");
  CHECK(document["sets"][0]["type"] == "source ranges");
  CHECK_FALSE(document["sets"][0].contains("maxElements"));
  CHECK_FALSE(document["sets"][0].contains("leftover"));
  CHECK(document["sets"][1]["leftover"] == true);
}

TEST_CASE("sets: elements of one") {
  CHECK(elements_text(cluster_ips(), SetFormat::text, nullptr) ==
        "10.96.0.1,tcp:443\n10.96.0.10,udp:53\n");
  const auto document =
      nlohmann::json::parse(elements_text(cluster_ips(), SetFormat::json, nullptr));
  CHECK(document["elements"] == nlohmann::json::array({"10.96.0.1,tcp:443", "10.96.0.10,udp:53"}));
  CHECK(document["name"] == "KUBE-CLUSTER-IP");
}

}  // namespace
}  // namespace ipvsproxier::ctl

#include "cmd/ipvsctl/diff/transaction_steps.h"

#include <catch2/catch.hpp>

#include "ipset/rules/rule_catalog.h"

namespace ipvsproxier::ctl {
namespace {

using ipset::SetId;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpvsOp;
using netlink::Protocol;
using Lines = std::vector<std::string>;

netlink::VirtualServiceKey web_key() {
  return {*IpAddress::parse("10.96.0.9"), Protocol::tcp, 80};
}

netlink::RealServer pod(std::uint32_t weight = 1) {
  return {.key = {*IpAddress::parse("10.244.1.2"), 8080}, .weight = weight};
}

struct Rig {
  plan::ActualState actual;
  std::set<std::string> links = {"eth0", "kube-ipvs0"};

  Rig() {
    actual.services.emplace();
    actual.addresses.emplace();
    for (const auto id : ipset::kSetIds) actual.sets[{Family::ipv4, id}] = std::nullopt;
  }

  // "+ virtual servers: 10.96.0.9:80/TCP rr"
  Lines of(const plan::Transaction& transaction) {
    Lines lines;
    for (const auto& step : steps_of(transaction, actual, links))
      lines.push_back(std::string(1, static_cast<char>(step.change)) + " " +
                      std::string(to_string(step.area)) + ": " + step.what);
    return lines;
  }
};

template <typename... Works>
plan::Transaction transaction(Works... works) {
  plan::Transaction result;
  (result.phases.push_back({"phase", std::move(works)}), ...);
  return result;
}

TEST_CASE("steps: virtual services and real servers are told with what changes") {
  Rig rig;
  netlink::VirtualService web{.key = web_key(), .scheduler = "rr"};
  CHECK(rig.of(transaction(
            std::vector<IpvsOp>{netlink::AddService{web}, netlink::AddServer{web_key(), pod()}})) ==
        Lines{"+ virtual servers: 10.96.0.9:80/TCP rr",
              "+ virtual servers: 10.96.0.9:80/TCP -> 10.244.1.2:8080"});
  rig.actual.commit(IpvsOp{netlink::AddService{web}});
  rig.actual.commit(IpvsOp{netlink::AddServer{web_key(), pod()}});
  web.scheduler = "mh";
  web.timeout = 60;
  CHECK(rig.of(transaction(std::vector<IpvsOp>{netlink::EditService{web},
                                               netlink::EditServer{web_key(), pod(0)}})) ==
        Lines{"~ virtual servers: 10.96.0.9:80/TCP: scheduler rr -> mh, "
              "persistence timeout 0 -> 60",
              "~ virtual servers: 10.96.0.9:80/TCP -> 10.244.1.2:8080: weight 1 -> 0"});
  CHECK(rig.of(transaction(std::vector<IpvsOp>{netlink::DeleteServer{web_key(), pod().key},
                                               netlink::DeleteService{web_key()}})) ==
        Lines{"- virtual servers: 10.96.0.9:80/TCP -> 10.244.1.2:8080",
              "- virtual servers: 10.96.0.9:80/TCP"});
}

TEST_CASE("steps: a scheduler that is bound after the real servers is told with its service") {
  Rig rig;
  const netlink::VirtualService unbound{.key = web_key(), .scheduler = netlink::kNoScheduler};
  const netlink::VirtualService bound{.key = web_key(), .scheduler = "mh"};
  CHECK(rig.of(transaction(
            std::vector<IpvsOp>{netlink::AddService{unbound}, netlink::EditService{bound}})) ==
        Lines{"+ virtual servers: 10.96.0.9:80/TCP mh"});
}

TEST_CASE("steps: sets are made or changed, elements come and go") {
  Rig rig;
  const plan::SetKey key{Family::ipv4, SetId::ipvs_ips};
  const auto spec = ipset::set_spec(SetId::ipvs_ips, Family::ipv4, 65536);
  const auto make = transaction(std::vector<ipset::SetSpec>{spec});
  CHECK(rig.of(make) == Lines{"+ IP sets: set KUBE-IPVS-IPS hash:ip maxelem 65536"});
  rig.actual.sets[key].emplace();
  CHECK(rig.of(make) == Lines{"~ IP sets: set KUBE-IPVS-IPS hash:ip maxelem 65536"});
  const ipset::Element vip = ipset::IpElement{web_key().address};
  CHECK(rig.of(transaction(std::vector<plan::SetChange>{{key, {{true, vip}, {false, vip}}}})) ==
        Lines{"+ IP sets: KUBE-IPVS-IPS 10.96.0.9", "- IP sets: KUBE-IPVS-IPS 10.96.0.9"});
}

TEST_CASE("steps: links are added before their first address and removed after their last") {
  Rig rig;
  const auto bind = [](bool add, const char* address, plan::Place place) {
    return plan::BindingOp{add, {*IpAddress::parse(address), place}};
  };
  using Ops = std::vector<plan::BindingOp>;
  CHECK(rig.of(transaction(
            Ops{bind(true, "10.96.0.9", 0), bind(true, "10.96.1.1", 1)},
            Ops{bind(true, "10.96.1.2", 1), bind(true, "10.96.2.1", plan::kLocalTable)})) ==
        Lines{"+ links and addresses: address 10.96.0.9 on kube-ipvs0",
              "+ links and addresses: dummy link kube-ipvs1",
              "+ links and addresses: address 10.96.1.1 on kube-ipvs1",
              "+ links and addresses: address 10.96.1.2 on kube-ipvs1",
              "+ links and addresses: local route to 10.96.2.1"});
  rig.actual.addresses->insert({*IpAddress::parse("10.96.1.1"), 1});
  rig.actual.addresses->insert({*IpAddress::parse("10.96.0.9"), 0});
  CHECK(rig.of(transaction(Ops{bind(false, "10.96.0.9", 0), bind(false, "10.96.1.1", 1)})) ==
        Lines{"- links and addresses: address 10.96.0.9 on kube-ipvs0",
              "- links and addresses: address 10.96.1.1 on kube-ipvs1",
              "- links and addresses: dummy link kube-ipvs1"});
}

TEST_CASE("steps: tables that are written twice are compared once, with their last content") {
  Rig rig;
  ipset::RuleParameters all;
  all.non_empty.insert(ipset::kSetIds.begin(), ipset::kSetIds.end());
  const auto prepared = ipset::rules_for(Family::ipv4, all);
  const auto settled = ipset::rules_for(Family::ipv4, {});
  for (const auto& table : settled) rig.actual.commit(table);
  CHECK(rig.of(transaction(prepared, settled)).empty());

  auto lacking = settled;
  for (auto& table : lacking) {
    if (table.table != ipset::Table::nat) continue;
    table.jumps.clear();
    table.chains.front().rules.clear();
    rig.actual.commit(table);
  }
  const auto lines = rig.of(transaction(settled));
  REQUIRE(!lines.empty());
  for (const auto& line : lines) CHECK(line.rfind("+ packet filter: IPv4 nat: -A ", 0) == 0);
}

}  // namespace
}  // namespace ipvsproxier::ctl

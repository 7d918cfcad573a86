// The mirror: what readings, operations and lost answers make of it.

#include <catch2/catch.hpp>

#include "proxier/plan/mirror.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;
using plan::ActualState;
using plan::Binding;
using plan::DesiredState;
using plan::Mirror;

const IpAddress kMirroredVip = IpAddress::v4(0x0a600001);
const IpAddress kUnmirroredVip = IpAddress::v4(0x0a600002);
const netlink::VirtualServiceKey kMirroredWeb{.address = kMirroredVip, .port = 80};
const plan::SetKey kClusterIps{netlink::Family::ipv4, ipset::SetId::cluster_ip};
const ipset::Element kMirroredElement =
    ipset::IpPortElement{kMirroredVip, netlink::Protocol::tcp, 80};

// All tables were read: the set has one element, the other tables are empty.
void read_all(ActualState& state) {
  state.services.emplace();
  state.addresses.emplace();
  state.sets[kClusterIps].emplace().insert(kMirroredElement);
}

Mirror read_mirror() {
  Mirror mirror;
  mirror.read_anew(read_all);
  return mirror;
}

DesiredState with_web() {
  DesiredState desired;
  desired.services[kMirroredWeb];
  desired.addresses.insert(kMirroredVip);
  desired.sets[kClusterIps].insert(kMirroredElement);
  return desired;
}

ActualState all_read() {
  ActualState state;
  read_all(state);
  return state;
}

// If kMirroredWeb is there, it is ours.
ActualState and_remembered(ActualState state) {
  state.remembered.insert(kMirroredWeb);
  return state;
}

TEST_CASE("mirror: a reading and an operation that succeeded change it at once") {
  auto mirror = read_mirror();
  mirror.commit(netlink::IpvsOp(netlink::AddService{{.key = kMirroredWeb, .scheduler = "rr"}}));
  mirror.commit(plan::BindingOp{true, {kMirroredVip, 0}});
  mirror.commit(kClusterIps, ipset::ElementOp{false, kMirroredElement});
  CHECK(mirror.state().services->at(kMirroredWeb).servers->empty());
  CHECK(mirror.state().addresses->contains(kMirroredVip));
  CHECK(mirror.state().sets.at(kClusterIps)->empty());
  mirror.take([](ActualState& state) { state.services->clear(); });
  CHECK(mirror.state().services->empty());
  CHECK(mirror.state().addresses->contains(kMirroredVip));
  mirror.read_anew([](ActualState& state) {
    CHECK(state == ActualState{});
    read_all(state);
  });
  CHECK(mirror.state() == all_read());
}

TEST_CASE("mirror: what may be exposed is believed to be there, once it must be removed") {
  auto mirror = read_mirror();
  mirror.lose_added(kMirroredWeb);
  mirror.lose_added(Binding{kMirroredVip, 1});
  mirror.assume_lost(with_web());
  CHECK(mirror.state() == and_remembered(all_read()));
  mirror.assume_lost({});
  CHECK(mirror.state().services->at(kMirroredWeb).service.key == kMirroredWeb);
  CHECK_FALSE(mirror.state().services->at(kMirroredWeb).servers);  // not known
  CHECK(mirror.state().addresses->places(kMirroredVip) == std::vector<plan::Place>{1});
  // Removed, it is not believed to be there again.
  mirror.commit(netlink::IpvsOp(netlink::DeleteService{kMirroredWeb}));
  mirror.commit(plan::BindingOp{false, {kMirroredVip, 1}});
  mirror.assume_lost({});
  CHECK(mirror.state() == and_remembered(all_read()));
}

TEST_CASE("mirror: a virtual service that is known keeps its real servers") {
  auto mirror = read_mirror();
  mirror.commit(netlink::IpvsOp(netlink::AddService{{.key = kMirroredWeb, .scheduler = "rr"}}));
  mirror.lose_added(kMirroredWeb);
  mirror.assume_lost({});
  CHECK(mirror.state().services->at(kMirroredWeb).service.scheduler == "rr");
  CHECK(mirror.state().services->at(kMirroredWeb).servers);
}

TEST_CASE("mirror: an element that may be gone is believed to be gone, once it is desired") {
  auto mirror = read_mirror();
  mirror.lose_removed({kClusterIps, kMirroredElement});
  mirror.assume_lost({});
  CHECK(mirror.state() == all_read());
  mirror.assume_lost(with_web());
  CHECK(mirror.state().sets.at(kClusterIps)->empty());
  // Added, it is not believed to be gone again.
  mirror.commit(kClusterIps, ipset::ElementOp{true, kMirroredElement});
  mirror.assume_lost(with_web());
  CHECK(mirror.state() == all_read());
}

TEST_CASE("mirror: a lost answer about a table that could not be read waits for its reading") {
  Mirror mirror;
  mirror.lose_added(kMirroredWeb);
  mirror.lose_added(Binding{kMirroredVip, 0});
  mirror.assume_lost({});
  CHECK(mirror.state() == and_remembered({}));
  mirror.take(read_all);
  mirror.assume_lost({});
  CHECK(mirror.state().services->contains(kMirroredWeb));
  CHECK(mirror.state().addresses->contains(kMirroredVip));
}

TEST_CASE("mirror: after a reading without a surprise no answer is missing any more") {
  auto mirror = read_mirror();
  mirror.lose_added(kMirroredWeb);
  mirror.lose_added(Binding{kMirroredVip, 0});
  mirror.lose_removed({kClusterIps, kMirroredElement});
  SECTION("part by part") {
    mirror.settle();
  }
  SECTION("as a whole") {
    mirror.read_anew(read_all);
  }
  mirror.assume_lost({});
  mirror.assume_lost(with_web());
  CHECK(mirror.state() == all_read());
}

TEST_CASE("mirror: addresses that are bound otherwise") {
  auto mirror = read_mirror();
  mirror.commit(plan::BindingOp{true, {kMirroredVip, 0}});
  auto found = mirror.state();
  CHECK(mirror.bound_otherwise(found).empty());
  SECTION("gone") {
    found.addresses->erase({kMirroredVip, 0});
  }
  SECTION("in another place") {
    found.addresses->erase({kMirroredVip, 0});
    found.addresses->insert({kMirroredVip, 1});
  }
  SECTION("with a prefix") {
    found.fixed_addresses.insert(kMirroredVip);
  }
  CHECK(mirror.bound_otherwise(found) == plan::AddressSet{kMirroredVip});
  found.addresses->insert({kUnmirroredVip, 0});
  CHECK(mirror.bound_otherwise(found) == plan::AddressSet{kMirroredVip, kUnmirroredVip});
}

}  // namespace
}  // namespace ipvsproxier::test

// Guards, as a value: what must wait after which outcomes.

#include <cerrno>

#include <catch2/catch.hpp>

#include "proxier/sync/guards.h"

namespace ipvsproxier::test {
namespace {

using ipset::SetId;
using netlink::AddServer;
using netlink::AddService;
using netlink::DeleteService;
using netlink::EditService;
using netlink::Error;
using netlink::ErrorKind;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpvsOp;
using netlink::Protocol;
using plan::BindingOp;
using sync::Cause;
using sync::Guards;

const IpAddress kGuardedVip = IpAddress::v4(0x0a600001);
const IpAddress kOtherVip = IpAddress::v4(0x0a600002);
const netlink::VirtualServiceKey kGuarded{.address = kGuardedVip, .port = 80};
const netlink::VirtualServiceKey kDns{
    .address = kGuardedVip, .protocol = Protocol::udp, .port = 53};
const netlink::VirtualServiceKey kOther{.address = kOtherVip, .port = 80};

Error node_fault() {
  return {ErrorKind::io, EIO, ""};
}
Error refused() {
  return {ErrorKind::malformed, EINVAL, ""};
}
IpvsOp added(const netlink::VirtualServiceKey& key, const char* scheduler = "rr") {
  return AddService{{.key = key, .scheduler = scheduler}};
}
IpvsOp edited(const netlink::VirtualServiceKey& key) {
  return EditService{{.key = key, .scheduler = "rr"}};
}
IpvsOp server_of(const netlink::VirtualServiceKey& key) {
  return AddServer{key, {.key = {.address = IpAddress::v4(0x0af40001), .port = 8080}}};
}
BindingOp bound(const IpAddress& address, plan::Place place = 0) {
  return {true, {address, place}};
}
BindingOp unbound(const IpAddress& address, plan::Place place = 0) {
  return {false, {address, place}};
}
ipset::Element port_of(const netlink::VirtualServiceKey& key) {
  return ipset::IpPortElement{key.address, key.protocol, key.port};
}

TEST_CASE("guards: without a failure nothing waits") {
  const Guards guards;
  CHECK_FALSE(guards.must_hold(added(kGuarded)));
  CHECK_FALSE(guards.must_hold(edited(kGuarded)));
  CHECK_FALSE(guards.must_hold(server_of(kGuarded)));
  CHECK_FALSE(guards.must_hold(bound(kGuardedVip)));
  CHECK_FALSE(guards.must_hold(unbound(kGuardedVip)));
  CHECK_FALSE(guards.must_keep({Family::ipv4, SetId::cluster_ip}, port_of(kGuarded)));
  CHECK_FALSE(guards.must_keep_rules(Family::ipv4));
  CHECK_FALSE(guards.lacks_set("KUBE-CLUSTER-IP"));
}

// Node ports are at this address.
plan::Transaction with_node_ports_at(const IpAddress& address) {
  plan::Transaction transaction;
  transaction.node_addresses.insert(address);
  return transaction;
}

TEST_CASE("guards: a virtual service waits for each of its elements, its rule and its family's") {
  const auto transaction = with_node_ports_at(kGuardedVip);
  Guards guards(transaction);
  SECTION("its element") {
    guards.note_unguarded(SetId::cluster_ip, port_of(kGuarded), Cause::node);
    CHECK(guards.must_hold(added(kGuarded)) == Cause::node);
    CHECK_FALSE(guards.must_hold(added(kDns)));
    CHECK_FALSE(guards.must_hold(bound(kGuardedVip)));
  }
  SECTION("its rule") {
    guards.note_unguarded(kGuarded, Cause::node);
    CHECK(guards.must_hold(added(kGuarded)) == Cause::node);
    CHECK_FALSE(guards.must_hold(added(kDns)));
  }
  SECTION("its address, which waits as well") {
    guards.note_unguarded(SetId::ipvs_ips, ipset::IpElement{kGuardedVip}, Cause::object);
    CHECK(guards.must_hold(added(kGuarded)) == Cause::object);
    CHECK(guards.must_hold(added(kDns)) == Cause::object);
    CHECK(guards.must_hold(bound(kGuardedVip)) == Cause::object);
    CHECK_FALSE(guards.must_hold(added(kOther)));
  }
  SECTION("its node port, on every address, of its protocol only") {
    guards.note_unguarded(SetId::node_port_udp, ipset::PortElement{53}, Cause::node);
    CHECK(guards.must_hold(added(kDns)) == Cause::node);
    CHECK_FALSE(guards.must_hold(added({.address = kGuardedVip, .port = 53})));
    CHECK_FALSE(guards.must_hold(
        added({.address = kOtherVip, .protocol = Protocol::udp, .port = 53})));  // no node port
  }
  SECTION("an endpoint's own element guards no virtual service") {
    guards.note_unguarded(SetId::loop_back,
                          ipset::IpPortIpElement{kGuardedVip, Protocol::tcp, 80, kGuardedVip},
                          Cause::node);
    CHECK_FALSE(guards.must_hold(added(kGuarded)));
  }
  SECTION("its family's rules") {
    guards.note_failed_rules(Family::ipv6);
    CHECK_FALSE(guards.must_hold(added(kGuarded)));
    guards.note_failed_rules(Family::ipv4);
    CHECK(guards.must_hold(added(kGuarded)) == Cause::node);
    CHECK(guards.must_hold(bound(kGuardedVip)) == Cause::node);
    CHECK_FALSE(guards.must_hold(unbound(kGuardedVip)));
  }
}

TEST_CASE("guards: the node counts before an object, in any order") {
  Guards guards;
  guards.note_unguarded(kGuarded, Cause::object);
  guards.note_unguarded(kGuarded, Cause::node);
  guards.note_unguarded(kDns, Cause::node);
  guards.note_unguarded(kDns, Cause::object);
  CHECK(guards.must_hold(added(kGuarded)) == Cause::node);
  CHECK(guards.must_hold(added(kDns)) == Cause::node);
  // Of two missing elements one is the node's fault.
  guards.note_unguarded(SetId::ipvs_ips, ipset::IpElement{kOtherVip}, Cause::object);
  CHECK(guards.must_hold(added(kOther)) == Cause::object);
  guards.note_unguarded(SetId::cluster_ip, port_of(kOther), Cause::node);
  CHECK(guards.must_hold(added(kOther)) == Cause::node);
}

TEST_CASE("guards: a real server and an edit wait for their virtual service") {
  Guards guards;
  SECTION("refused") {
    guards.note(added(kGuarded), refused());
  }
  SECTION("held back") {
    guards.note_held(added(kGuarded), Cause::object);
  }
  CHECK(guards.must_hold(server_of(kGuarded)) == Cause::object);
  CHECK(guards.must_hold(edited(kGuarded)) == Cause::object);
  CHECK_FALSE(guards.must_hold(server_of(kDns)));
}

TEST_CASE("guards: an address waits for one of its virtual services") {
  Guards guards;
  guards.note(added(kGuarded), refused());
  CHECK(guards.must_hold(bound(kGuardedVip)) == Cause::object);
  guards.note(added(kDns), node_fault());
  CHECK(guards.must_hold(bound(kGuardedVip)) == Cause::node);
  CHECK_FALSE(guards.must_hold(bound(kOtherVip)));
  guards.note(added({.address = kGuardedVip, .port = 443}), {});
  CHECK_FALSE(guards.must_hold(bound(kGuardedVip)));
}

TEST_CASE("guards: a virtual service added without scheduler counts when it has one") {
  Guards guards;
  guards.note(added(kGuarded), refused());
  guards.note(added(kDns, netlink::kNoScheduler), {});
  CHECK(guards.must_hold(bound(kGuardedVip)) == Cause::object);
  SECTION("it gets one") {
    guards.note(edited(kDns), {});
    CHECK_FALSE(guards.must_hold(bound(kGuardedVip)));
    CHECK(guards.take_useless_services().empty());
  }
  SECTION("the kernel lacks its module") {
    guards.note(edited(kDns), Error{ErrorKind::missing, ENOENT, ""});
    CHECK(guards.must_hold(bound(kGuardedVip)) == Cause::node);
    CHECK(guards.must_hold(server_of(kDns)) == Cause::node);
    CHECK(guards.take_useless_services() == std::set{kDns});
    CHECK(guards.take_useless_services().empty());
  }
  SECTION("another failure leaves it") {
    guards.note(edited(kDns), node_fault());
    CHECK(guards.must_hold(server_of(kDns)) == Cause::node);
    CHECK(guards.take_useless_services().empty());
  }
  SECTION("an edit of an older virtual service changes nothing") {
    guards.note(edited(kOther), Error{ErrorKind::missing, ENOENT, ""});
    CHECK_FALSE(guards.must_hold(server_of(kOther)));
    CHECK(guards.take_useless_services().empty());
  }
}

TEST_CASE("guards: an address leaves its place once it is in its new one") {
  Guards guards;
  SECTION("refused") {
    guards.note(bound(kGuardedVip, 1), refused());
  }
  SECTION("held back") {
    guards.note_held(bound(kGuardedVip, 1), Cause::object);
  }
  CHECK(guards.must_hold(unbound(kGuardedVip)) == Cause::object);
  CHECK_FALSE(guards.must_hold(unbound(kOtherVip)));
  guards.note(bound(kOtherVip, 1), {});
  guards.note_held(unbound(kOtherVip), Cause::node);
  CHECK_FALSE(guards.must_hold(unbound(kOtherVip)));
}

TEST_CASE("guards: elements and rules stay as long as the entry that they guard") {
  Guards guards;
  const auto keeps = [&](SetId set, const ipset::Element& element) {
    return guards.must_keep({Family::ipv4, set}, element);
  };
  SECTION("a virtual service that could not be removed") {
    guards.note(DeleteService{kGuarded}, {});
    CHECK_FALSE(keeps(SetId::cluster_ip, port_of(kGuarded)));
    CHECK_FALSE(guards.must_keep_rules(Family::ipv4));
    guards.note(DeleteService{kGuarded}, node_fault());
    CHECK(keeps(SetId::cluster_ip, port_of(kGuarded)));
    CHECK_FALSE(keeps(SetId::cluster_ip, port_of(kDns)));
    CHECK(keeps(SetId::ipvs_ips, ipset::IpElement{kGuardedVip}));
    CHECK(keeps(SetId::node_port_tcp, ipset::PortElement{80}));
    CHECK_FALSE(keeps(SetId::node_port_tcp, ipset::PortElement{81}));
  }
  SECTION("an address that could not be removed") {
    guards.note(unbound(kGuardedVip), {});
    CHECK_FALSE(keeps(SetId::ipvs_ips, ipset::IpElement{kGuardedVip}));
    guards.note(unbound(kGuardedVip), node_fault());
    CHECK(keeps(SetId::cluster_ip, port_of(kGuarded)));
    CHECK(keeps(SetId::ipvs_ips, ipset::IpElement{kGuardedVip}));
    CHECK_FALSE(keeps(SetId::ipvs_ips, ipset::IpElement{kOtherVip}));
  }
  CHECK(guards.must_keep_rules(Family::ipv4));
  CHECK_FALSE(guards.must_keep_rules(Family::ipv6));
}

// Whatever the reason for its leave.
TEST_CASE("guards: packets go on to be masqueraded while a real server has not left") {
  const auto transaction = with_node_ports_at(kGuardedVip);
  Guards guards(transaction);
  const netlink::RealServer server{.key = {.address = IpAddress::v4(0x0af40001), .port = 8080},
                                   .weight = 0};
  const IpvsOp leaves = GENERATE_COPY(IpvsOp(netlink::DeleteServer{kGuarded, server.key}),
                                      IpvsOp(netlink::EditServer{kGuarded, server}));
  const plan::SetKey local{Family::ipv4, SetId::load_balancer_local};
  const plan::SetKey port{Family::ipv4, SetId::node_port_local_tcp};
  const plan::SetKey external{Family::ipv4, SetId::external_ip};
  const auto keeps = [&](const netlink::VirtualServiceKey& key) {
    CHECK(guards.must_hold(local, port_of(key)) == guards.must_keep(external, port_of(key)));
    return guards.must_hold(local, port_of(key));
  };
  guards.note(leaves, {});
  CHECK_FALSE(keeps(kGuarded));
  SECTION("it was not removed") {
    guards.note(leaves, node_fault());
  }
  SECTION("its removal was held back") {
    guards.note_held(leaves, Cause::node);
  }
  CHECK(keeps(kGuarded));
  CHECK(guards.must_hold(port, ipset::PortElement{80}));
  CHECK_FALSE(keeps(kDns));
  CHECK_FALSE(guards.must_hold(port, ipset::PortElement{81}));
  CHECK_FALSE(guards.must_keep({Family::ipv4, SetId::load_balancer}, port_of(kGuarded)));
}

TEST_CASE("guards: a node port waits for no other virtual service of its number") {
  const auto transaction = with_node_ports_at(kGuardedVip);
  Guards guards(transaction);
  const plan::SetKey local{Family::ipv4, SetId::node_port_local_tcp};
  const auto leaves = [](const netlink::VirtualServiceKey& key) {
    return netlink::DeleteServer{key, {.address = IpAddress::v4(0x0af40001), .port = 8080}};
  };
  guards.note(leaves(kOther), node_fault());
  CHECK_FALSE(guards.must_hold(local, ipset::PortElement{80}));
  guards.note(leaves(kGuarded), node_fault());
  CHECK(guards.must_hold(local, ipset::PortElement{80}));

  guards.note_unguarded(SetId::node_port_udp, ipset::PortElement{53}, Cause::node);
  guards.note_stuck(local.id, ipset::PortElement{80}, Cause::node);
  CHECK(guards.must_hold(server_of(kGuarded)) == Cause::node);
  CHECK_FALSE(guards.must_hold(server_of(kOther)));
}

// A packet filter that still drops all others is told of it by nothing but the element.
TEST_CASE("guards: in-cluster clients keep their way while all others are dropped") {
  Guards guards;
  const plan::SetKey map{Family::ipv4, SetId::nft_in_cluster};
  const ipset::Element entry =
      ipset::DestinationElement{kGuardedVip, Protocol::tcp, 80, kOtherVip, 80};
  CHECK_FALSE(guards.must_keep(map, entry));
  guards.note_unguarded(SetId::nft_services,
                        ipset::ServiceElement{.ip = kGuardedVip,
                                              .protocol = Protocol::tcp,
                                              .port = 80,
                                              .verdict = ipset::ServiceVerdict::local},
                        Cause::node);
  CHECK(guards.must_keep(map, entry));
  const ipset::Element other =
      ipset::DestinationElement{kOtherVip, Protocol::tcp, 81, kGuardedVip, 80};
  CHECK_FALSE(guards.must_keep(map, other));
}

// An object may have 100,000s of endpoints that the kernel refuses, and as many addresses.
TEST_CASE("guards: what asks for a way does not ask for each endpoint there") {
  constexpr std::uint32_t kMany = 30'000;
  plan::Transaction transaction;
  const auto from = [](std::uint32_t number) {
    return netlink::VirtualServiceKey{.address = IpAddress::v4(0xc6120000U + number), .port = 80};
  };
  for (std::uint32_t i = 0; i < kMany; ++i) transaction.ways.emplace(from(i), kGuarded);
  Guards guards(transaction);
  const auto server = [](std::uint32_t number) {
    return AddServer{kGuarded,
                     {.key = {.address = IpAddress::v4(0xef000000U + number), .port = 80}}};
  };
  for (std::uint32_t i = 0; i < kMany; ++i) guards.note(server(i), refused());
  const plan::SetKey map{Family::ipv4, SetId::nft_in_cluster};
  const auto held = [&] {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < kMany; ++i)
      if (guards.must_hold(map, ipset::DestinationElement{from(i).address, Protocol::tcp, 80,
                                                          kGuarded.address, kGuarded.port}))
        ++count;
    return count;
  };
  CHECK(held() == 0);
  guards.note(server(kMany), node_fault());
  CHECK(held() == kMany);
}

// When a table fails as a whole, none of its removals has come to pass.
TEST_CASE("guards: an element asks for what it guards, not for each virtual service that stays") {
  constexpr std::uint32_t kMany = 20'000;
  Guards guards;
  const auto numbered = [](std::uint32_t number) {
    return netlink::VirtualServiceKey{.address = IpAddress::v4(0xc6120000U + number), .port = 80};
  };
  for (std::uint32_t i = 0; i < kMany; ++i) guards.note(DeleteService{numbered(i)}, node_fault());
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < 2 * kMany; ++i)
    for (const auto& [set, element] :
         {std::pair{SetId::cluster_ip, port_of(numbered(i))},
          std::pair{SetId::ipvs_ips, ipset::Element(ipset::IpElement{numbered(i).address})}})
      kept += guards.must_keep({Family::ipv4, set}, element) ? 1 : 0;
  CHECK(kept == 2 * kMany);
  CHECK(guards.must_keep({Family::ipv4, SetId::node_port_tcp}, ipset::PortElement{80}));
  CHECK_FALSE(guards.must_keep({Family::ipv4, SetId::node_port_tcp}, ipset::PortElement{443}));
}

TEST_CASE("guards: a set that could not be made is known by its name") {
  Guards guards;
  guards.note_missing_set("KUBE-CLUSTER-IP");
  CHECK(guards.lacks_set("KUBE-CLUSTER-IP"));
  CHECK_FALSE(guards.lacks_set("KUBE-6-CLUSTER-IP"));
}

TEST_CASE("guards: the old source ranges in nf_tables stay while the new ones are missing") {
  Guards guards;
  const plan::SetKey ranges{Family::ipv4, SetId::nft_source_ranges};
  const ipset::RangesElement old_range{
      kGuardedVip, Protocol::tcp, 80, {*netlink::IpPrefix::parse("192.0.2.0/24")}};
  auto new_range = old_range;
  new_range.ranges = {*netlink::IpPrefix::parse("198.51.100.0/24")};
  CHECK_FALSE(guards.must_keep(ranges, old_range));
  guards.note_unguarded(ranges.id, new_range, Cause::node);
  CHECK(guards.must_keep(ranges, old_range));
  auto other = old_range;
  other.ip = kOtherVip;
  CHECK_FALSE(guards.must_keep(ranges, other));
}

}  // namespace
}  // namespace ipvsproxier::test

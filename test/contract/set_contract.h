#pragma once

// What every SetTable keeps: the same cases for the fake (unit suite) and for the scratch kernel.
//
//   TEST_CASE("...") { test::check_set_contract<World>(); }
//
// A World is made afresh for each section and has
//   SetTable& table();
//   std::uint64_t writes();                     write commands so far
//   void make_foreign(const std::string& name); a set of type hash:mac, made by somebody else
//   void hold(const std::string& name);         a reference to the set, so that it is in use

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_table.h"

namespace ipvsproxier::test {

using ipset::Element;
using ipset::ElementOp;
using ipset::IpElement;
using ipset::IpPortElement;
using ipset::IpPortIpElement;
using ipset::IpPortNetElement;
using ipset::ListedSet;
using ipset::PortElement;
using ipset::SetKind;
using ipset::SetSpec;
using ipset::SetTable;
using ipset::Status;
using netlink::ErrorKind;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;

inline IpAddress contract_ip(std::string_view text) {
  return IpAddress::parse(text).value();
}

// "10.0.0.7" or "fd00::7": the n-th address of the family.
inline IpAddress contract_ip(Family family, std::uint32_t n) {
  if (family == Family::ipv4) return IpAddress::v4(0x0a000000U + n);
  std::array<std::uint8_t, 16> bytes{0xfd};
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[15 - i] = static_cast<std::uint8_t>(n >> (8 * i));
  }
  return IpAddress::from_bytes(Family::ipv6, bytes).value();
}

inline IpPrefix contract_net(std::string_view text) {
  return IpPrefix::parse(text).value();
}

inline SetSpec contract_spec(SetKind kind, Family family, std::string name = "KUBE-CONTRACT") {
  return SetSpec{.name = std::move(name), .kind = kind, .family = family};
}

// Elements of one kind, sorted, all three protocols and both ends of the port range among them.
inline std::vector<Element> contract_elements(SetKind kind, Family family) {
  const auto ip = [&](std::uint32_t n) { return contract_ip(family, n); };
  const auto net = [&](std::uint32_t n, std::uint8_t length) {
    return IpPrefix::of(ip(n), length);
  };
  switch (kind) {
    case SetKind::hash_ip:
      return {IpElement{ip(1)}, IpElement{ip(2)}, IpElement{ip(258)}};
    case SetKind::hash_ip_port:
      return {IpPortElement{ip(1), Protocol::tcp, 53}, IpPortElement{ip(1), Protocol::udp, 53},
              IpPortElement{ip(1), Protocol::sctp, 53}, IpPortElement{ip(2), Protocol::tcp, 1},
              IpPortElement{ip(2), Protocol::tcp, 65535}};
    case SetKind::hash_ip_port_ip:
      return {IpPortIpElement{ip(1), Protocol::tcp, 80, ip(1)},
              IpPortIpElement{ip(1), Protocol::tcp, 80, ip(2)},
              IpPortIpElement{ip(1), Protocol::sctp, 80, ip(1)}};
    case SetKind::hash_ip_port_net:
      return {IpPortNetElement{ip(1), Protocol::tcp, 80, net(0, 8)},
              IpPortNetElement{ip(1), Protocol::tcp, 80, net(0, 24)},
              IpPortNetElement{ip(1), Protocol::tcp, 80, net(3, netlink::address_bits(family))},
              IpPortNetElement{ip(1), Protocol::udp, 80, net(0, 1)}};
    case SetKind::bitmap_port:
      return {PortElement{0}, PortElement{1}, PortElement{30080}, PortElement{65535}};
    default:  // not of an IP set
      break;
  }
  return {};
}

inline std::vector<ElementOp> contract_ops(bool add, const std::vector<Element>& elements) {
  std::vector<ElementOp> ops;
  for (const Element& element : elements) ops.push_back(ElementOp{add, element});
  return ops;
}

inline void check_all_succeeded(const std::vector<Status>& outcomes, std::size_t expected) {
  REQUIRE(outcomes.size() == expected);
  for (const Status& status : outcomes) {
    INFO((status ? std::string() : netlink::to_string(status.error())));
    REQUIRE(status);
  }
}

// What the table lists, as text.
inline std::vector<std::string> contract_listing(SetTable& table, const std::string& name) {
  const auto listed = table.list(name);
  INFO((listed ? std::string() : netlink::to_string(listed.error())));
  REQUIRE(listed);
  REQUIRE(listed->has_value());
  std::vector<std::string> texts;
  for (const Element& element : (*listed)->elements) texts.push_back(to_string(element));
  return texts;
}

inline std::vector<std::string> contract_texts(const std::vector<Element>& elements) {
  std::vector<std::string> texts;
  for (const Element& element : elements) texts.push_back(to_string(element));
  return texts;
}

inline void require_created(SetTable& table, const SetSpec& spec) {
  const Status created = table.ensure(spec);
  INFO((created ? std::string() : netlink::to_string(created.error())));
  REQUIRE(created);
}

// Adds, adds again, lists, removes, removes again, destroys.
template <typename World>
void check_life_of_a_set(World& world, const SetSpec& spec) {
  SetTable& table = world.table();
  INFO(to_string(spec.kind) << " " << netlink::to_string(spec.family));
  require_created(table, spec);
  const std::vector<Element> elements = contract_elements(spec.kind, spec.family);
  const std::vector<ElementOp> adds = contract_ops(true, elements);
  const std::vector<ElementOp> removals = contract_ops(false, elements);
  check_all_succeeded(table.apply(spec, adds), adds.size());
  CHECK(contract_listing(table, spec.name) == contract_texts(elements));
  check_all_succeeded(table.apply(spec, adds), adds.size());
  CHECK(contract_listing(table, spec.name) == contract_texts(elements));

  const auto listed = table.list(spec.name);
  CHECK((*listed)->spec.name == spec.name);
  CHECK((*listed)->spec.kind == spec.kind);
  CHECK((*listed)->elements == elements);
  if (spec.kind != SetKind::bitmap_port) CHECK((*listed)->spec == spec);

  const auto writes = world.writes();
  require_created(table, spec);
  CHECK(world.writes() == writes);
  CHECK(contract_listing(table, spec.name) == contract_texts(elements));

  check_all_succeeded(table.apply(spec, {removals.data(), 1}), 1);
  CHECK(contract_listing(table, spec.name).size() == elements.size() - 1);
  check_all_succeeded(table.apply(spec, removals), removals.size());
  CHECK(contract_listing(table, spec.name).empty());
  REQUIRE(table.destroy(spec.name));
  CHECK_FALSE(table.list(spec.name)->has_value());
}

template <typename World>
void check_existing_sets(World& world) {
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip_port, Family::ipv4);
  const std::vector<Element> elements = contract_elements(spec.kind, spec.family);
  const auto refuses = [&](const SetSpec& wanted, const char* named) {
    const auto writes = world.writes();
    const Status refused = table.ensure(wanted);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::already);
    INFO(refused.error().where);
    CHECK(refused.error().where.find(named) != std::string::npos);
    CHECK(refused.error().where.find(wanted.name) != std::string::npos);
    CHECK(world.writes() == writes);
  };

  SECTION("an existing set of another kind or family is refused and not touched") {
    require_created(table, spec);
    check_all_succeeded(table.apply(spec, contract_ops(true, elements)), elements.size());
    refuses(contract_spec(SetKind::hash_ip, Family::ipv4), "hash:ip,port, wanted hash:ip");
    refuses(contract_spec(SetKind::bitmap_port, Family::ipv4), "hash:ip,port, wanted bitmap:port");
    refuses(contract_spec(SetKind::hash_ip_port, Family::ipv6), "family inet, wanted inet6");
    CHECK(contract_listing(table, spec.name) == contract_texts(elements));
  }
  SECTION(
      "an existing set with another maxelem keeps its elements and gets the one that is wanted") {
    require_created(table, spec);
    check_all_succeeded(table.apply(spec, contract_ops(true, elements)), elements.size());
    world.hold(spec.name);
    for (const std::uint32_t capacity : {131072U, 65536U, 64U}) {
      SetSpec other = spec;
      other.max_elements = capacity;
      const auto writes = world.writes();
      require_created(table, other);
      CHECK(world.writes() == writes + elements.size() + 4);
      CHECK((*table.list(spec.name))->spec.max_elements == capacity);
      CHECK(contract_listing(table, spec.name) == contract_texts(elements));
      CHECK_FALSE(*table.list(ipset::kCopyName));
      require_created(table, other);  // it is what is wanted: nothing is written
      CHECK(world.writes() == writes + elements.size() + 4);
    }
  }
  SECTION("an existing set with too many elements for the wanted maxelem stays as it is") {
    require_created(table, spec);
    std::vector<ElementOp> ops;
    for (std::uint32_t n = 1; n <= 2000; ++n)
      ops.push_back({true, IpPortElement{contract_ip(Family::ipv4, n), Protocol::tcp, 80}});
    check_all_succeeded(table.apply(spec, ops), ops.size());
    SetSpec smaller = spec;
    smaller.max_elements = 100;
    const Status refused = table.ensure(smaller);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::io);
    INFO(refused.error().where);
    CHECK(refused.error().where.find("maxelem 65536, wanted 100") != std::string::npos);
    CHECK((*table.list(spec.name))->spec.max_elements == 65536);
    CHECK((*table.list(spec.name))->elements.size() == 2000);
    CHECK_FALSE(*table.list(ipset::kCopyName));
  }
  SECTION("a set with another hash size is accepted") {
    SetSpec larger = spec;
    larger.hash_size = 4096;
    require_created(table, larger);
    require_created(table, spec);
    CHECK((*table.list(spec.name))->spec.hash_size == 4096);
  }
  SECTION("a set of a type that is not ours is neither listed nor taken") {
    world.make_foreign(spec.name);
    const auto listed = table.list(spec.name);
    REQUIRE_FALSE(listed);
    CHECK(listed.error().kind == ErrorKind::unsupported);
    CHECK(listed.error().where.find("hash:mac") != std::string::npos);
    refuses(spec, "hash:mac, wanted hash:ip,port");
  }
}

template <typename World>
void check_neighbours(World& world) {
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip_port, Family::ipv4);
  const std::vector<Element> elements = contract_elements(spec.kind, spec.family);

  SECTION("sets of others are left alone") {
    world.make_foreign("SOMEBODY-ELSES");
    const SetSpec other = contract_spec(SetKind::hash_ip, Family::ipv4, "KUBE-CONTRACT-2");
    require_created(table, other);
    check_all_succeeded(
        table.apply(other, contract_ops(true, {IpElement{contract_ip("10.0.0.9")}})), 1);
    require_created(table, spec);
    check_all_succeeded(table.apply(spec, contract_ops(true, elements)), elements.size());
    check_all_succeeded(table.apply(spec, contract_ops(false, elements)), elements.size());
    REQUIRE(table.destroy(spec.name));
    CHECK(contract_listing(table, other.name) == std::vector<std::string>{"10.0.0.9"});
    CHECK(table.list("SOMEBODY-ELSES").error().kind == ErrorKind::unsupported);
  }
  SECTION("a set that is referred to is not destroyed") {
    require_created(table, spec);
    world.hold(spec.name);
    const Status refused = table.destroy(spec.name);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::busy);
    CHECK(table.list(spec.name)->has_value());
  }
}

template <typename World>
void check_missing_sets_and_names(World& world) {
  SetTable& table = world.table();
  SECTION("a missing set lists as none, takes no element, and is destroyed already") {
    const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv6);
    const auto listed = table.list(spec.name);
    REQUIRE(listed);
    CHECK_FALSE(listed->has_value());
    const auto ops = contract_ops(true, contract_elements(spec.kind, spec.family));
    const auto outcomes = table.apply(spec, ops);
    REQUIRE(outcomes.size() == ops.size());
    for (const Status& status : outcomes) {
      REQUIRE_FALSE(status);
      CHECK(status.error().kind == ErrorKind::missing);
    }
    CHECK(table.destroy(spec.name));
  }
  SECTION("a name has 1 to 31 bytes") {
    const std::string longest(31, 'n');
    const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4, longest);
    require_created(table, spec);
    check_all_succeeded(table.apply(spec, contract_ops(true, {IpElement{contract_ip("10.0.0.9")}})),
                        1);
    CHECK(contract_listing(table, longest) == std::vector<std::string>{"10.0.0.9"});
    for (const std::string& name : {longest + "n", std::string()}) {
      CHECK(table.ensure(contract_spec(SetKind::hash_ip, Family::ipv4, name)).error().kind ==
            ErrorKind::malformed);
      CHECK(table.list(name).error().kind == ErrorKind::malformed);
      CHECK(table.destroy(name).error().kind == ErrorKind::malformed);
    }
    CHECK(contract_listing(table, longest) == std::vector<std::string>{"10.0.0.9"});
  }
  SECTION("nothing to do is done") {
    CHECK(table.apply(contract_spec(SetKind::hash_ip, Family::ipv4), {}).empty());
    CHECK(world.writes() == 0);
  }
}

template <typename World>
void check_elements(World& world) {
  SetTable& table = world.table();
  SECTION("one bad element stops nothing") {
    const SetSpec spec = contract_spec(SetKind::hash_ip_port_net, Family::ipv4);
    require_created(table, spec);
    const auto element = [](const char* ip, std::uint16_t port, const char* net) {
      return Element{IpPortNetElement{contract_ip(ip), Protocol::tcp, port, contract_net(net)}};
    };
    std::vector<ElementOp> ops;
    for (std::uint16_t port = 1; port <= 1000; ++port) {
      ops.push_back({true, element("10.0.0.1", port, "10.0.0.0/8")});
    }
    ops[250].element = element("10.0.0.1", 251, "0.0.0.0/0");
    ops[500].element = element("fd00::1", 501, "fd00::/8");
    ops[501].element = PortElement{502};
    ops[999].element = element("10.0.0.1", 1000, "0.0.0.0/0");
    const auto outcomes = table.apply(spec, ops);
    REQUIRE(outcomes.size() == ops.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      INFO(i);
      const bool is_bad = i == 250 || i == 500 || i == 501 || i == 999;
      REQUIRE(outcomes[i].has_value() != is_bad);
      if (is_bad) CHECK(outcomes[i].error().kind == ErrorKind::malformed);
    }
    CHECK(outcomes[250].error().where.find("10.0.0.1,tcp:251,0.0.0.0/0") != std::string::npos);
    CHECK(contract_listing(table, spec.name).size() == 996);
  }
  SECTION("operations run in order") {
    const SetSpec spec = contract_spec(SetKind::hash_ip, Family::ipv4);
    require_created(table, spec);
    const Element first = IpElement{contract_ip("10.0.0.1")};
    const Element second = IpElement{contract_ip("10.0.0.2")};
    const std::vector<ElementOp> ops = {
        {true, first}, {false, first}, {false, second}, {true, second}};
    check_all_succeeded(table.apply(spec, ops), ops.size());
    CHECK(contract_listing(table, spec.name) == std::vector<std::string>{"10.0.0.2"});
  }
}

template <typename World>
void check_odd_addresses(World& world) {
  SetTable& table = world.table();
  SECTION("the unspecified address is no element of hash:ip") {
    for (const Family family : netlink::kFamilies) {
      const SetSpec spec = contract_spec(SetKind::hash_ip, family,
                                         "KUBE-ANY-" + std::string(netlink::to_string(family)));
      require_created(table, spec);
      const auto outcomes =
          table.apply(spec, contract_ops(true, {IpElement{IpAddress::any(family)}}));
      REQUIRE_FALSE(outcomes.at(0));
      CHECK(outcomes.at(0).error().kind == ErrorKind::malformed);
      CHECK(contract_listing(table, spec.name).empty());
    }
  }
  SECTION("IPv6 addresses that look like IPv4 stay what they are") {
    const SetSpec spec = contract_spec(SetKind::hash_ip_port_ip, Family::ipv6);
    require_created(table, spec);
    const std::array<std::uint8_t, 16> bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1};
    const IpAddress compatible = IpAddress::from_bytes(Family::ipv6, bytes).value();
    const std::vector<Element> elements = {
        IpPortIpElement{contract_ip("::1"), Protocol::tcp, 80, compatible},
        IpPortIpElement{compatible, Protocol::sctp, 80, contract_ip("::1")}};
    check_all_succeeded(table.apply(spec, contract_ops(true, elements)), elements.size());
    CHECK((*table.list(spec.name))->elements == elements);
  }
}

template <typename World>
void check_large_sets(World& world) {
  SetTable& table = world.table();
  const SetSpec spec = contract_spec(SetKind::hash_ip_port, Family::ipv6);
  const auto element = [](std::uint32_t n) {
    return Element{IpPortElement{contract_ip(Family::ipv6, n), Protocol::tcp, 80}};
  };
  const auto range = [&](std::uint32_t first, std::uint32_t last) {
    std::vector<Element> elements;
    for (std::uint32_t n = first; n < last; ++n) elements.push_back(element(n));
    return elements;
  };

  SECTION("a large listing is complete") {
    require_created(table, spec);
    const auto elements = range(1, 60001);
    check_all_succeeded(table.apply(spec, contract_ops(true, elements)), elements.size());
    const auto listed = table.list(spec.name);
    REQUIRE(listed);
    CHECK((*listed)->elements == elements);
    CHECK((*listed)->spec.max_elements == 65536);
  }
  SECTION("every port is an element") {
    const SetSpec ports = contract_spec(SetKind::bitmap_port, Family::ipv4);
    require_created(table, ports);
    std::vector<Element> elements;
    for (std::uint32_t port = 0; port < 65536; ++port) {
      elements.push_back(PortElement{static_cast<std::uint16_t>(port)});
    }
    check_all_succeeded(table.apply(ports, contract_ops(true, elements)), elements.size());
    CHECK((*table.list(ports.name))->elements == elements);
  }
  SECTION("a full set refuses what is new, one by one, and goes on working") {
    require_created(table, spec);
    const auto elements = range(1, 70001);
    const auto outcomes = table.apply(spec, contract_ops(true, elements));
    REQUIRE(outcomes.size() == elements.size());
    std::vector<Element> accepted;
    std::vector<Element> refused;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      (outcomes[i] ? accepted : refused).push_back(elements[i]);
      if (!outcomes[i]) REQUIRE(outcomes[i].error().kind == ErrorKind::io);
    }
    // The kernel may take a few more: it looks at the share of a part of its table first.
    CHECK(accepted.size() >= 65536);
    REQUIRE(refused.size() >= 100);
    CHECK((*table.list(spec.name))->elements == accepted);

    // What is in stays addable, what is out removable, and room is used again.
    check_all_succeeded(table.apply(spec, contract_ops(true, {accepted.front()})), 1);
    check_all_succeeded(table.apply(spec, contract_ops(false, {refused.front()})), 1);
    const std::vector<Element> leaving(accepted.begin(), accepted.begin() + 20000);
    check_all_succeeded(table.apply(spec, contract_ops(false, leaving)), leaving.size());
    check_all_succeeded(table.apply(spec, contract_ops(true, refused)), refused.size());
    CHECK((*table.list(spec.name))->elements.size() == 50000);
  }
}

template <typename World>
void check_set_contract() {
  World world;
  SECTION("all kinds of both families live and die") {
    for (const Family family : netlink::kFamilies) {
      for (const SetKind kind : {SetKind::hash_ip, SetKind::hash_ip_port, SetKind::hash_ip_port_ip,
                                 SetKind::hash_ip_port_net, SetKind::bitmap_port}) {
        check_life_of_a_set(world, contract_spec(kind, family));
      }
    }
  }
  SECTION("all 34 sets of the catalogue exist side by side") {
    for (const Family family : netlink::kFamilies) {
      for (const ipset::SetId id : ipset::kSetIds) {
        require_created(world.table(), ipset::set_spec(id, family));
      }
    }
    CHECK(world.writes() == 34);
    for (const Family family : netlink::kFamilies) {
      for (const ipset::SetId id : ipset::kSetIds) {
        const SetSpec spec = ipset::set_spec(id, family);
        require_created(world.table(), spec);
        CHECK((*world.table().list(spec.name))->spec.kind == spec.kind);
      }
    }
    CHECK(world.writes() == 34);
  }
  check_existing_sets(world);
  check_neighbours(world);
  check_missing_sets_and_names(world);
  check_elements(world);
  check_odd_addresses(world);
  check_large_sets(world);
}

}  // namespace ipvsproxier::test

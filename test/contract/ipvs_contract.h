#pragma once

// What every IpvsTable must do, on an empty table. Included by the unit test of the fake and by the
// kernel test; call it inside of a TEST_CASE that makes the table, so that each section has its
// own.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/ipvs/ipvs_table.h"

namespace ipvsproxier::test {

inline netlink::IpAddress address(const std::string& text) {
  const auto parsed = netlink::IpAddress::parse(text);
  REQUIRE(parsed);
  return *parsed;
}

inline netlink::VirtualService virtual_service(const std::string& ip, std::uint16_t port,
                                               netlink::Protocol protocol = netlink::Protocol::tcp,
                                               const std::string& scheduler = "rr") {
  const auto parsed = address(ip);
  return {.key = {.address = parsed, .protocol = protocol, .port = port},
          .scheduler = scheduler,
          .netmask_bits = netlink::address_bits(parsed.family())};
}

inline netlink::RealServer real_server(const std::string& ip, std::uint16_t port,
                                       std::uint32_t weight = 1) {
  return {.key = {address(ip), port}, .weight = weight};
}

inline std::vector<netlink::VirtualService> services_of(netlink::IpvsTable& table) {
  auto services = table.list_services();
  REQUIRE(services);
  std::ranges::sort(*services);
  return *services;
}

inline std::vector<netlink::RealServer> servers_of(netlink::IpvsTable& table,
                                                   const netlink::VirtualServiceKey& key) {
  const auto listed = table.list_servers(key);
  if (!listed) FAIL(to_string(listed.error()));
  std::vector<netlink::RealServer> servers;
  for (const auto& one : *listed) servers.push_back(one.server);
  std::ranges::sort(servers);
  return servers;
}

inline netlink::Status apply_one(netlink::IpvsTable& table, const netlink::IpvsOp& op) {
  const std::vector<netlink::IpvsOp> ops = {op};
  auto outcomes = table.apply(ops);
  REQUIRE(outcomes.size() == 1);
  return outcomes[0];
}

// Applies one operation that must succeed.
inline void must(netlink::IpvsTable& table, const netlink::IpvsOp& op) {
  const auto status = apply_one(table, op);
  if (!status) FAIL(to_string(status.error()));
}

inline netlink::Error refused(netlink::IpvsTable& table, const netlink::IpvsOp& op) {
  const auto status = apply_one(table, op);
  if (status) FAIL("not refused: " << to_string(op));
  INFO(to_string(status.error()));
  CHECK(status.error().where.find(to_string(op)) == 0);
  return status.error();
}

// Both ways to list them answer the same.
inline void ipvs_listing_contract(netlink::IpvsTable& table) {
  using Keys = std::multiset<netlink::VirtualServiceKey>;
  constexpr std::uint32_t kServices = 700;
  for (std::uint32_t i = 0; i < kServices; ++i)
    must(table, netlink::AddService{
                    {.key = {netlink::IpAddress::v4(0x0a600000U + i), netlink::Protocol::tcp, 80},
                     .scheduler = "rr"}});
  Keys all;
  const auto listed = table.list_services();
  REQUIRE(listed);
  for (const auto& service : *listed) all.insert(service.key);
  CHECK(all.size() == kServices);
  for (int round = 0; round < 3; ++round) {
    Keys found;
    auto part = table.begin_services();
    REQUIRE(part);
    std::size_t parts = 1;
    while (true) {
      for (const auto& service : part->services) found.insert(service.key);
      // What is done in between goes its own way; the first one is left off for the next round.
      const netlink::VirtualServiceKey key{netlink::IpAddress::v4(0x0a600000U),
                                           netlink::Protocol::tcp, 80};
      must(table, netlink::EditService{{.key = key, .scheduler = "rr"}});
      CHECK(table.list_servers(key));
      if (part->last || (round == 0 && parts == 2)) break;
      part = table.next_services();
      REQUIRE(part);
      ++parts;
    }
    CHECK(parts >= 2);
    if (round > 0) CHECK(found == all);
  }
}

inline void ipvs_service_contract(netlink::IpvsTable& table) {
  using namespace netlink;
  const auto web = virtual_service("10.0.0.1", 80);

  SECTION("services of both families and all protocols are listed as they were added") {
    std::vector<VirtualService> wanted;
    for (const std::string ip : {"10.0.0.1", "fd00::1"})
      for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp})
        wanted.push_back(virtual_service(ip, 443, protocol));
    for (const auto& service : wanted) must(table, AddService{service});
    std::ranges::sort(wanted);
    CHECK(services_of(table) == wanted);
    CHECK(servers_of(table, wanted[0].key).empty());
  }
  SECTION("whether there is a scheduler is asked without adding anything") {
    CHECK(table.has_scheduler("wrr").value());
    CHECK_FALSE(table.has_scheduler("nonesuch").value());
    CHECK(services_of(table).empty());
  }
  SECTION("an add that adopts what exists is an edit and keeps the servers") {
    must(table, AddService{web});
    must(table, AddServer{web.key, real_server("10.1.0.1", 80)});
    auto changed = web;
    changed.scheduler = "wrr";
    must(table, AddService{changed, true});
    CHECK(services_of(table) == std::vector{changed});
    CHECK(servers_of(table, web.key).size() == 1);
  }
  SECTION("an add that does not adopt leaves what exists as it is, whatever follows in the call") {
    const auto theirs = real_server("10.1.0.1", 80, 5);
    must(table, AddService{web});
    must(table, AddServer{web.key, theirs});
    auto changed = web;
    changed.scheduler = "wrr";
    const auto other = virtual_service("10.0.0.2", 80);
    const std::vector<IpvsOp> ops = {AddService{changed},
                                     AddServer{web.key, real_server("10.1.0.2", 80)},
                                     EditServer{web.key, real_server("10.1.0.1", 80, 0)},
                                     AddService{other},
                                     AddServer{other.key, real_server("10.1.0.3", 80)},
                                     EditService{changed},
                                     DeleteServer{web.key, theirs.key},
                                     DeleteService{web.key}};
    const auto outcomes = table.apply(ops);
    REQUIRE(outcomes.size() == ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      INFO(to_string(ops[i]));
      const bool is_other = service_of(ops[i]) == other.key;
      REQUIRE(outcomes[i].has_value() == is_other);
      if (is_other) continue;
      CHECK(outcomes[i].error().kind == ErrorKind::already);
      CHECK(outcomes[i].error().where.find(to_string(ops[i])) == 0);
    }
    CHECK(services_of(table) == std::vector{web, other});
    CHECK(servers_of(table, web.key) == std::vector{theirs});
    CHECK(servers_of(table, other.key).size() == 1);
  }
  SECTION("an edit of what is missing is an add") {
    must(table, EditService{web});
    CHECK(services_of(table) == std::vector{web});
  }
  SECTION("a delete removes the servers too; of what is missing it succeeds") {
    must(table, AddService{web});
    must(table, AddServer{web.key, real_server("10.1.0.1", 80)});
    must(table, DeleteService{web.key});
    must(table, DeleteService{web.key});
    CHECK(services_of(table).empty());
    must(table, AddService{web});
    CHECK(servers_of(table, web.key).empty());
  }
  SECTION("an unknown scheduler is missing and named, and changes nothing") {
    for (const std::string name : {"nosuch", "a-name-longer-than-any"}) {
      auto odd = web;
      odd.scheduler = name;
      const auto error = refused(table, AddService{odd});
      CHECK(error.kind == ErrorKind::missing);
      CHECK(error.where.find("\"" + name.substr(0, netlink::ShortName::kMost) + "\"") !=
            std::string::npos);
      CHECK(services_of(table).empty());
      must(table, AddService{web});
      CHECK(refused(table, EditService{odd}).kind == ErrorKind::missing);
      CHECK(refused(table, AddService{odd, true}).kind == ErrorKind::missing);
      CHECK(services_of(table) == std::vector{web});
      must(table, DeleteService{web.key});
    }
  }
  SECTION("a service without a scheduler gets real servers, and then one") {
    const auto key = VirtualServiceKey{address("10.0.0.1"), Protocol::tcp, 80};
    std::vector<IpvsOp> ops{AddService{{.key = key, .scheduler = kNoScheduler}}};
    for (std::uint32_t i = 1; i <= 70; ++i)
      ops.emplace_back(AddServer{key, {.key = {IpAddress::v4(0x0a000100U + i), 8080}}});
    for (const auto& status : table.apply(ops))
      if (!status) FAIL(to_string(status.error()));
    CHECK(services_of(table).at(0).scheduler == kNoScheduler);
    for (const auto* scheduler : {"mh", "sh"}) {
      must(table, EditService{{.key = key, .scheduler = scheduler}});
      CHECK(services_of(table).at(0).scheduler == scheduler);
      CHECK(servers_of(table, key).size() == 70);
    }
  }
  SECTION("firewall marks") {
    std::vector<VirtualService> wanted;
    for (const auto family : kFamilies)
      for (const std::uint32_t mark : {7U, 3'000'000'000U})
        wanted.push_back({.key = {.address = IpAddress::any(family), .fwmark = mark},
                          .scheduler = "wlc",
                          .netmask_bits = address_bits(family)});
    for (const auto& service : wanted) must(table, AddService{service});
    std::ranges::sort(wanted);
    CHECK(services_of(table) == wanted);
    must(table, AddServer{wanted[0].key, real_server("10.1.0.1", 0)});
    CHECK(servers_of(table, wanted[0].key) == std::vector{real_server("10.1.0.1", 0)});
    for (const auto& service : wanted) must(table, DeleteService{service.key});
    CHECK(services_of(table).empty());
  }
  SECTION("flags, persistence and netmask are set and cleared") {
    auto sticky = web;
    sticky.flags = kPersistent | kOnePacket;
    sticky.timeout = 10800;
    sticky.netmask_bits = 24;
    auto sixth = virtual_service("fd00::1", 80, Protocol::udp, "mh");
    sixth.flags = kPersistent | kSchedulerFlag1 | kSchedulerFlag2 | kSchedulerFlag3;
    sixth.timeout = 5;
    sixth.netmask_bits = 64;
    must(table, AddService{sticky});
    must(table, AddService{sixth});
    CHECK(services_of(table) == std::vector{sticky, sixth});
    must(table, EditService{web});
    CHECK(services_of(table) == std::vector{web, sixth});
    sixth.netmask_bits = 0;
    CHECK(refused(table, EditService{sixth}).kind == ErrorKind::malformed);
  }
  SECTION("persistence engines") {
    auto sip = virtual_service("10.0.0.1", 5060, Protocol::udp);
    sip.flags = kPersistent;
    sip.timeout = 60;
    sip.persistence_engine = "sip";
    must(table, AddService{sip});
    CHECK(services_of(table) == std::vector{sip});
    sip.persistence_engine = "nosuch";
    sip.key.port = 5061;
    CHECK(refused(table, AddService{sip}).kind == ErrorKind::missing);
  }
  SECTION("timeouts: 0 leaves a value alone") {
    REQUIRE(table.set_timeouts({.tcp = 1000, .tcp_fin = 100, .udp = 200}));
    REQUIRE(table.set_timeouts({.tcp_fin = 50}));
    const auto timeouts = table.timeouts();
    REQUIRE(timeouts);
    CHECK(*timeouts == IpvsTimeouts{.tcp = 1000, .tcp_fin = 50, .udp = 200});
  }
  SECTION("the servers of a missing service are missing") {
    const auto servers = table.list_servers(web.key);
    REQUIRE_FALSE(servers);
    CHECK(servers.error().kind == ErrorKind::missing);
    CHECK(servers.error().where.find("10.0.0.1:80/TCP") != std::string::npos);
  }
}

inline void ipvs_server_contract(netlink::IpvsTable& table) {
  using namespace netlink;
  const auto web = virtual_service("10.0.0.1", 80);
  const auto sixth = virtual_service("fd00::1", 80);
  must(table, AddService{web});
  must(table, AddService{sixth});

  SECTION("servers are added, edited, added again as an edit, and deleted") {
    auto server = real_server("10.1.0.1", 8080, 1);
    must(table, AddServer{web.key, server});
    must(table, AddServer{sixth.key, real_server("fd00:1::1", 8080)});
    CHECK(servers_of(table, web.key) == std::vector{server});
    CHECK(servers_of(table, sixth.key) == std::vector{real_server("fd00:1::1", 8080)});
    server.weight = 0;
    must(table, EditServer{web.key, server});
    CHECK(servers_of(table, web.key) == std::vector{server});
    server.weight = 7;
    must(table, AddServer{web.key, server});
    CHECK(servers_of(table, web.key) == std::vector{server});
    must(table, DeleteServer{web.key, server.key});
    must(table, DeleteServer{web.key, server.key});
    CHECK(servers_of(table, web.key).empty());
    must(table, EditServer{web.key, server});
    CHECK(servers_of(table, web.key) == std::vector{server});
    must(table, DeleteServer{web.key, server.key});
    server.weight = 0;
    must(table, EditServer{web.key, server});  // has drained: does not come back
    CHECK(servers_of(table, web.key).empty());
  }
  SECTION("a server of a missing service is missing; its deletion succeeds") {
    const auto other = virtual_service("10.0.0.2", 80);
    for (const IpvsOp& op : {IpvsOp{AddServer{other.key, real_server("10.1.0.1", 80)}},
                             IpvsOp{EditServer{other.key, real_server("10.1.0.1", 80)}}})
      CHECK(refused(table, op).kind == ErrorKind::missing);
    must(table, DeleteServer{other.key, {address("10.1.0.1"), 80}});
    CHECK(services_of(table).size() == 2);
  }
  SECTION("another family only through a tunnel") {
    auto server = real_server("fd00:1::1", 80);
    CHECK(refused(table, AddServer{web.key, server}).kind == ErrorKind::malformed);
    server.method = ForwardMethod::tunnel;
    must(table, AddServer{web.key, server});
    CHECK(servers_of(table, web.key) == std::vector{server});
    CHECK(refused(table, AddServer{sixth.key, real_server("10.1.0.1", 80)}).kind ==
          ErrorKind::malformed);
    must(table, DeleteServer{web.key, server.key});
    CHECK(servers_of(table, web.key).empty());
  }
  SECTION("methods, thresholds, weights and tunnels are kept") {
    std::vector<RealServer> wanted;
    for (const auto method : {ForwardMethod::masquerade, ForwardMethod::local,
                              ForwardMethod::tunnel, ForwardMethod::route}) {
      auto server = real_server("10.1.0.1", static_cast<std::uint16_t>(wanted.size()), 65535);
      server.method = method;
      server.upper_threshold = 200;
      server.lower_threshold = 100;
      wanted.push_back(server);
    }
    wanted.push_back({.key = {address("10.1.0.2"), 1},
                      .weight = 2147483647,
                      .method = ForwardMethod::tunnel,
                      .tunnel_type = 1,
                      .tunnel_port = 6080,
                      .tunnel_flags = 2});
    wanted.push_back({.key = {address("10.1.0.3"), 1},
                      .method = ForwardMethod::tunnel,
                      .tunnel_type = 2,
                      .tunnel_flags = 1});
    for (const auto& server : wanted) must(table, AddServer{web.key, server});
    std::ranges::sort(wanted);
    CHECK(servers_of(table, web.key) == wanted);
  }
  SECTION("what makes no sense is refused") {
    auto low = real_server("10.1.0.1", 80);
    low.lower_threshold = 2;
    low.upper_threshold = 1;
    auto heavy = real_server("10.1.0.2", 80, 0x80000000U);
    auto gue = real_server("10.1.0.3", 80);
    gue.method = ForwardMethod::tunnel;
    gue.tunnel_type = 1;
    for (const auto& server :
         {low, heavy, gue, real_server("224.0.0.1", 80), real_server("0.0.0.0", 80)})
      CHECK(refused(table, AddServer{web.key, server}).kind == ErrorKind::malformed);
    for (const std::string ip : {"ff02::1", "fe80::1", "::"})
      CHECK(refused(table, AddServer{sixth.key, real_server(ip, 80)}).kind == ErrorKind::malformed);
    CHECK(servers_of(table, web.key).empty());
    CHECK(servers_of(table, sixth.key).empty());
  }
}

inline void ipvs_batch_contract(netlink::IpvsTable& table) {
  using namespace netlink;
  const auto web = virtual_service("10.0.0.1", 80);
  const auto server = real_server("10.1.0.1", 80);
  const auto all_succeed = [](const std::vector<Status>& outcomes) {
    for (const auto& outcome : outcomes)
      if (!outcome) FAIL(to_string(outcome.error()));
  };

  SECTION("an empty batch") {
    CHECK(table.apply({}).empty());
  }
  SECTION("a thousand operations with failures between them") {
    const auto count = 1000;
    std::vector<IpvsOp> ops;
    std::vector<VirtualService> wanted;
    const auto bad = [](int i) { return i % 7 == 3 || i == count - 1 || i == 31 || i == 32; };
    for (int i = 0; i < count; ++i) {
      auto service = web;
      service.key.port = static_cast<std::uint16_t>(i + 1);
      if (bad(i))
        service.scheduler = "nosuch";
      else
        wanted.push_back(service);
      ops.push_back(AddService{service, true});
    }
    // The middle ones exist already, and are edits.
    for (int i = 500; i < 520; ++i) {
      auto service = wanted[static_cast<std::size_t>(i)];
      service.scheduler = "lc";
      must(table, AddService{service});
    }
    const auto outcomes = table.apply(ops);
    REQUIRE(outcomes.size() == ops.size());
    for (int i = 0; i < count; ++i) {
      const auto& outcome = outcomes[static_cast<std::size_t>(i)];
      INFO(to_string(ops[static_cast<std::size_t>(i)]));
      REQUIRE(outcome.has_value() != bad(i));
      if (!outcome) REQUIRE(outcome.error().kind == ErrorKind::missing);
    }
    CHECK(services_of(table) == wanted);
  }
  SECTION("operations on one service happen in their order") {
    auto changed = web;
    changed.scheduler = "wrr";
    const std::vector<IpvsOp> ops = {
        AddService{web, true},
        AddServer{web.key, server},
        DeleteService{web.key},
        AddService{changed},
        AddServer{web.key, real_server("10.1.0.2", 80)},
    };
    all_succeed(table.apply(ops));
    CHECK(services_of(table) == std::vector{changed});
    CHECK(servers_of(table, web.key) == std::vector{real_server("10.1.0.2", 80)});
    all_succeed(table.apply(ops));
    CHECK(services_of(table) == std::vector{changed});
    const std::vector<IpvsOp> away = {AddService{web, true}, AddServer{web.key, server},
                                      DeleteServer{web.key, server.key}, DeleteService{web.key}};
    all_succeed(table.apply(away));
    CHECK(services_of(table).empty());
  }
  SECTION("edits of a service that somebody deleted bring it back with its servers") {
    const std::vector<IpvsOp> ops = {EditService{web}, EditServer{web.key, server},
                                     AddServer{web.key, real_server("10.1.0.2", 80)}};
    all_succeed(table.apply(ops));
    CHECK(services_of(table) == std::vector{web});
    CHECK(servers_of(table, web.key) == std::vector{server, real_server("10.1.0.2", 80)});
  }
}

}  // namespace ipvsproxier::test

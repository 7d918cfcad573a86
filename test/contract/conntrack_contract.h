#pragma once

// What every ConntrackTable must do, in a namespace without UDP flows. `track` makes a packet go
// from one end to the other, both in kTrackedAddresses, so that its flow is tracked. See
// ipvs_contract.h for how to call it.

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/conntrack/conntrack_listing.h"
#include "netlink/conntrack/conntrack_table.h"

namespace ipvsproxier::test {

inline constexpr std::array kTrackedAddresses = {"10.0.0.1", "10.96.0.10", "10.96.0.11",
                                                 "fd00::1",  "fd00::a",    "fd00::b"};

using Track = std::function<void(const netlink::FlowEnd& source, const netlink::FlowEnd& to)>;

inline netlink::FlowEnd flow_end(const std::string& ip, std::uint16_t port) {
  const auto address = netlink::IpAddress::parse(ip);
  REQUIRE(address);
  return {*address, port};
}

// The flows of UDP, by a listing in parts.
inline std::vector<netlink::Flow> flows_in_parts(netlink::ConntrackTable& table,
                                                 netlink::Family family) {
  std::vector<netlink::Flow> flows;
  for (auto part = table.begin_list(family, {netlink::Protocol::udp});; part = table.next_list()) {
    if (!part) FAIL(to_string(part.error()));
    flows.insert(flows.end(), part->flows.begin(), part->flows.end());
    if (part->last) break;
  }
  netlink::keep_each_once(flows);
  return flows;
}

// A listing of all flows is the same in parts.
inline std::vector<netlink::Flow> flows_of(
    netlink::ConntrackTable& table, netlink::Family family,
    const std::optional<netlink::FlowEnd>& destination = std::nullopt) {
  netlink::FlowQuery query{.family = family};
  if (destination) query.destinations.insert(*destination);
  auto flows = table.list(query);
  if (!flows) FAIL(to_string(flows.error()));
  if (!destination) CHECK(flows_in_parts(table, family) == *flows);
  return *flows;
}

// "10.0.0.1:4000 10.96.0.10:53" of each flow.
inline std::vector<std::string> ends_of(const std::vector<netlink::Flow>& flows) {
  std::vector<std::string> result;
  for (const auto& flow : flows)
    result.push_back(to_string(flow.source.address, flow.source.port) + " " +
                     to_string(flow.destination.address, flow.destination.port));
  return result;
}

inline void must_remove(netlink::ConntrackTable& table, const std::vector<netlink::Flow>& flows) {
  const auto outcomes = table.remove(flows);
  REQUIRE(outcomes.size() == flows.size());
  for (const auto& outcome : outcomes)
    if (!outcome) FAIL(to_string(outcome.error()));
}

// Begins and ends without flows, as does the next.
inline void conntrack_listing_contract(netlink::ConntrackTable& table, const Track& track,
                                       netlink::Family family) {
  using namespace netlink;
  using Lines = std::vector<std::string>;
  const bool v4 = family == Family::ipv4;
  const auto other = v4 ? Family::ipv6 : Family::ipv4;
  const std::string client = v4 ? "10.0.0.1" : "fd00::1";
  const std::string dns = v4 ? "10.96.0.10" : "fd00::a";
  const std::string decoy = v4 ? "10.96.0.11" : "fd00::b";
  const auto line = [&](const std::string& from, std::uint16_t source, const std::string& to,
                        std::uint16_t port) {
    return to_string(flow_end(from, 0).address, source) + " " +
           to_string(flow_end(to, 0).address, port);
  };
  CHECK(flows_of(table, family).empty());
  CHECK(flows_of(table, family, flow_end(dns, 53)).empty());
  CHECK(table.remove({}).empty());

  track(flow_end(client, 4000), flow_end(dns, 53));
  const auto first = flows_of(table, family);
  REQUIRE(first.size() == 1);
  CHECK(first[0].source == flow_end(client, 4000));
  CHECK(first[0].destination == flow_end(dns, 53));
  CHECK(first[0].server == flow_end(dns, 53));
  // Further packets are the same flow.
  track(flow_end(client, 4000), flow_end(dns, 53));
  CHECK(flows_of(table, family) == first);

  track(flow_end(client, 4001), flow_end(dns, 53));
  track(flow_end(client, 4000), flow_end(dns, 54));
  track(flow_end(client, 4000), flow_end(decoy, 53));
  // The other way round it is another flow, to the client.
  track(flow_end(dns, 53), flow_end(client, 4002));
  CHECK(ends_of(flows_of(table, family, flow_end(dns, 53))) ==
        Lines{line(client, 4000, dns, 53), line(client, 4001, dns, 53)});
  CHECK(ends_of(flows_of(table, family, flow_end(dns, 54))) == Lines{line(client, 4000, dns, 54)});
  CHECK(ends_of(flows_of(table, family, flow_end(client, 4002))) ==
        Lines{line(dns, 53, client, 4002)});
  CHECK(flows_of(table, family, flow_end(dns, 4000)).empty());
  CHECK(flows_of(table, other).empty());
  CHECK(flows_of(table, other, flow_end(dns, 53)).empty());
  const auto all = flows_of(table, family);
  CHECK(all.size() == 5);
  must_remove(table, all);
  CHECK(flows_of(table, family).empty());
}

inline void conntrack_removal_contract(netlink::ConntrackTable& table, const Track& track,
                                       netlink::Family family) {
  using namespace netlink;
  const bool v4 = family == Family::ipv4;
  const std::string client = v4 ? "10.0.0.1" : "fd00::1";
  const auto dns = flow_end(v4 ? "10.96.0.10" : "fd00::a", 53);

  track(flow_end(client, 4000), dns);
  const auto one = flows_of(table, family);
  REQUIRE(one.size() == 1);
  auto others = std::vector<Flow>(5, one[0]);
  ++others[0].id;
  ++others[1].source.port;
  ++others[2].destination.port;
  others[3].source.address = dns.address;
  others[4].destination.address = one[0].source.address;
  must_remove(table, others);
  CHECK(flows_of(table, family) == one);

  for (std::uint16_t port = 4000; port < 4200; ++port) track(flow_end(client, port), dns);
  auto flows = flows_of(table, family, dns);
  REQUIRE(flows.size() == 200);
  const std::vector<Flow> named(flows.begin() + 10, flows.begin() + 90);
  must_remove(table, named);
  flows.erase(flows.begin() + 10, flows.begin() + 90);
  CHECK(flows_of(table, family, dns) == flows);
  must_remove(table, named);
  CHECK(flows_of(table, family, dns) == flows);
  must_remove(table, flows);
  CHECK(flows_of(table, family).empty());
}

}  // namespace ipvsproxier::test

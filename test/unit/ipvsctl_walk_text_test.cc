#include "cmd/ipvsctl/explain/walk_text.h"

#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/support/ip.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::Protocol;

Candidate candidate_at(const char* address, const char* link) {
  return {
      .server = {.key = {test::ip(address), 8080}},
      .steps = {{.stage = "nat POSTROUTING", .chain = "A", .text = "-j MASQUERADE"},
                {.stage = "link", .text = std::string("leaves for ") + address, .decides = true}},
      .arrival = {.fate = Fate::served,
                  .source = test::ip("10.1.0.1"),
                  .masqueraded = true,
                  .source_because = "marked",
                  .out_link = link}};
}

// Three servers, two of them reached alike, and one that is drained.
PacketWalk served() {
  PacketWalk walk{.flow = {.source = test::ip("203.0.113.7"),
                           .destination = test::ip("10.96.0.1"),
                           .port = 80,
                           .in_link = "eth0"}};
  walk.steps = {
      {.stage = "filter INPUT", .chain = "INPUT", .text = "[match tcp 0]", .unjudged = true},
      {.stage = "filter INPUT", .chain = "B", .text = "-j RETURN", .found = "S has 80"}};
  walk.service =
      netlink::VirtualService{.key = {test::ip("10.96.0.1"), Protocol::tcp, 80}, .scheduler = "rr"};
  walk.candidates = {candidate_at("10.1.0.2", "cni0"), candidate_at("10.1.0.3", "cni0"),
                     candidate_at("10.2.0.2", "eth0")};
  walk.candidates[2].arrival.cautions = {"look out"};
  walk.passed_over = {{.key = {test::ip("10.1.0.4"), 8080}, .weight = 0}};
  walk.arrival.fate = Fate::served;
  return walk;
}

const WalkNames kNames = {.service = [](const auto&) { return "shop/web:http, cluster IP"; },
                          .address =
                              [](const auto& address) {
                                return address == test::ip("10.1.0.2") ? std::string("shop/web-1")
                                                                       : std::string();
                              }};

TEST_CASE("a walk as a page: servers that are reached alike are told once, all are listed") {
  CHECK(walk_text(served(), kNames, nullptr) ==
        R"(TCP 203.0.113.7 -> 10.96.0.1:80, in by eth0

? filter INPUT    INPUT  [match tcp 0]  (cannot be judged from here: taken as not matching)
  filter INPUT    B  -j RETURN  [S has 80]

  if to 10.1.0.2:8080, and so to 1 more
  nat POSTROUTING A  -j MASQUERADE
> link            leaves for 10.1.0.2

  if to 10.2.0.2:8080
  nat POSTROUTING A  -j MASQUERADE
> link            leaves for 10.2.0.2

Virtual service 10.96.0.1:80/TCP (shop/web:http, cluster IP).
It goes to one of 3 real servers, as rr chooses:
  10.1.0.2:8080 (shop/web-1)  weight 1  sees 10.1.0.1 (masqueraded: marked)
  10.1.0.3:8080  weight 1  sees 10.1.0.1 (masqueraded: marked)
  10.2.0.2:8080  weight 1  sees 10.1.0.1 (masqueraded: marked)
  10.1.0.4:8080  weight 0  gets nothing new
Beware: look out.
Not certain: rules that are marked ? may match, and then this may be otherwise.
)");
}

TEST_CASE("a walk as a page: how it ends without a server") {
  const auto verdict = [](Arrival arrival) {
    PacketWalk walk{.flow = {.destination = test::ip("10.1.0.9"), .port = 53}, .sent_here = true};
    arrival.source = test::ip("10.1.0.1");
    walk.arrival = std::move(arrival);
    const auto text = walk_text(walk, {}, nullptr);
    return text.substr(text.find("\n\n\n") + 3);
  };
  CHECK(verdict({.fate = Fate::delivered}) ==
        "It gets to this node itself, which sees 10.1.0.1.\n");
  CHECK(verdict({.fate = Fate::forwarded, .source_because = "A -j RETURN", .out_link = "eth0"}) ==
        "It leaves by eth0, for no virtual service; 10.1.0.9 sees 10.1.0.1 (not masqueraded: A -j "
        "RETURN).\n");
  CHECK(verdict({.fate = Fate::refused, .notice = Notice::reset, .why = "socket: none"}) ==
        "It is refused (TCP reset) at socket: none.\n");
  CHECK(verdict({.fate = Fate::dropped, .why = "filter INPUT: A -j DROP"}) ==
        "It is dropped at filter INPUT: A -j DROP.\n");
}

netlink::IpvsConnection client_connection() {
  return {.protocol = "TCP",
          .client_address = test::ip("203.0.113.7"),
          .client_port = 4000,
          .virtual_address = test::ip("10.96.0.1"),
          .virtual_port = 80,
          .server_address = test::ip("10.1.0.2"),
          .server_port = 8080,
          .state = "ESTABLISHED",
          .expires = 899};
}

TEST_CASE("what there is of a flow now: its source, its port if it names one, templates") {
  const auto flow = served().flow;
  auto connection = client_connection();
  CHECK(is_of(connection, flow));
  auto exact = flow;
  exact.source_port = 4001;
  CHECK_FALSE(is_of(connection, exact));
  auto kept = connection;
  kept.client_port = 0;
  CHECK(is_of(kept, exact));
  kept.protocol = "UDP";
  CHECK_FALSE(is_of(kept, exact));

  const netlink::TrackedFlow tracked{.source = {test::ip("203.0.113.7"), 4000},
                                     .destination = {test::ip("10.96.0.1"), 80},
                                     .server = {test::ip("10.1.0.2"), 8080},
                                     .seen = {test::ip("10.1.0.1"), 5000},
                                     .state = "SYN_SENT",
                                     .expires = 60};
  CHECK(is_of(tracked, flow));
  CHECK_FALSE(is_of(tracked, exact));
  kept.protocol = "TCP";
  const LiveFlows live{.connections = {connection, kept}, .tracked = {tracked}, .unread = ""};
  CHECK(live_text(live) == R"(
Now:
  IPVS       TCP 203.0.113.7:4000 -> 10.96.0.1:80 -> 10.1.0.2:8080  ESTABLISHED  899 s
  IPVS       TCP 203.0.113.7 stays: 10.96.0.1:80 -> 10.1.0.2:8080  899 s
  conntrack  TCP 203.0.113.7:4000 -> 10.96.0.1:80, not answered, expected 10.1.0.2:8080 -> 10.1.0.1:5000  SYN_SENT  60 s
)");
}

TEST_CASE(
    "a connection at another virtual service is of the tracked flows that are sent on there") {
  auto connection = client_connection();
  const netlink::VirtualServiceKey service{test::ip("10.96.0.1"), netlink::Protocol::tcp, 80};
  const std::set<netlink::FlowEnd> sources{{test::ip("203.0.113.7"), 4000}};
  CHECK(is_at(connection, service, sources));
  CHECK_FALSE(is_at(connection, service, {}));
  CHECK_FALSE(is_at(connection, {service.address, service.protocol, 81}, sources));
  CHECK_FALSE(is_at(connection, {service.address, netlink::Protocol::udp, 80}, sources));
  connection.client_port = 4001;
  CHECK_FALSE(is_at(connection, service, sources));
  connection.client_port = 0;
  CHECK(is_at(connection, service, sources));
  connection.client_address = test::ip("203.0.113.6");
  CHECK_FALSE(is_at(connection, service, sources));
}

TEST_CASE("connections that could not be read are not taken for none") {
  CHECK(live_text({.connections = {}, .tracked = {}, .unread = "no module"}) ==
        "\nNow:\n  conntrack  not known: no module\n");
  CHECK(live_text({}) == "\nNow:\n  no connection of it\n");
}

TEST_CASE("a walk as JSON holds what the page says") {
  const LiveFlows live;
  const auto json = nlohmann::json::parse(walk_json(served(), kNames, &live));
  CHECK(json["flow"]["source"] == "203.0.113.7");
  CHECK(json["steps"][0]["unjudged"] == true);
  CHECK(json["certain"] == false);
  CHECK(json["steps"][1]["found"] == "S has 80");
  CHECK(json["service"]["name"] == "shop/web:http, cluster IP");
  CHECK(json["candidates"].size() == 3);
  CHECK(json["candidates"][0]["server"]["name"] == "shop/web-1");
  CHECK(json["candidates"][0]["arrival"]["masqueraded"] == true);
  CHECK(json["candidates"][2]["arrival"]["cautions"][0] == "look out");
  CHECK(json["passedOver"][0]["weight"] == 0);
  CHECK(json["getsThere"] == true);
  CHECK(json["live"]["ipvs"].empty());
  CHECK_FALSE(nlohmann::json::parse(walk_json(served(), {}, nullptr)).contains("live"));
}

}  // namespace
}  // namespace ipvsproxier::ctl

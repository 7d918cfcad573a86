// What people show who may name things: every page for a terminal shows it as it would show the
// text with its escapes written out, in the same columns and on the same line.

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/explain/walk_text.h"
#include "cmd/ipvsctl/listing/address_listing.h"
#include "cmd/ipvsctl/listing/connection_listing.h"
#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/names/element_owners.h"
#include "cmd/ipvsctl/rules/rule_listing.h"
#include "cmd/ipvsctl/service/service_page.h"
#include "cmd/ipvsctl/top/top_view.h"
#include "proxier/api/json_builder.h"
#include "proxier/api/visible_text.h"
#include "test/fakes/fake_ipvs_reader.h"
#include "test/support/ip.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::Status;
using test::ip;

// Clears the screen, sets the title, turns the writing, forges a line.
const std::string kHostile =
    "w\x1b[2J\x1b]0;x\x07\xc2\x9b"
    "31m\xe2\x80\xae\x7f\r\nTCP  9.9.9.9:9 rr\xc3\xbc";

ClusterNames names_with(const std::string& name) {
  ClusterNames names;
  const auto text = [&](const std::string& before) { return before + name; };
  const nlohmann::json page{
      {"services",
       {{{"namespace", text("n")},
         {"name", text("s")},
         {"virtual", {{"10.96.8.1", 80, "TCP", text("p"), "cluster IP"}}},
         {"slices",
          {{{"ports", {8080}},
            {"endpoints",
             {{"10.244.0.9", text("pod"), text("node"), text("zone"), true, true, false}}}}}}}}},
      {"continue", ""}};
  REQUIRE(names.take_page(api::to_json_text(page)));
  return names;
}

class OneConnection final : public netlink::ConnectionSource {
 public:
  Status connections(const std::function<Status(const netlink::IpvsConnection&)>& each) override {
    return each({.protocol = "TCP",
                 .client_address = ip("10.0.0.9"),
                 .client_port = 4000,
                 .virtual_address = ip("10.96.8.1"),
                 .virtual_port = 80,
                 .server_address = ip("10.244.0.9"),
                 .server_port = 8080,
                 .state = "ESTABLISHED",
                 .persistence_engine = "sip",
                 .persistence_data = data_});
  }
  void set_data(std::string data) { data_ = std::move(data); }

 private:
  std::string data_;
};

TextSink into(std::string& text) {
  return [&text](std::string_view part) -> Status {
    text += part;
    return {};
  };
}

class NamedBy final : public AddressNames {
 public:
  explicit NamedBy(std::string name) : name_(std::move(name)) {}
  std::optional<std::string> host(const netlink::IpAddress& /*address*/) override { return name_; }
  std::optional<std::string> service(std::uint16_t /*port*/, netlink::Protocol /*of*/) override {
    return std::nullopt;
  }

 private:
  std::string name_;
};

std::string table_page(const std::string& name) {
  test::FakeIpvsReader reader(
      {{test::read_service("10.96.8.1", 80), {test::read_server("10.244.0.9", 8080)}}});
  const auto names = names_with(name);
  NamedBy hosts(name);
  std::string text;
  for (auto* const known : {static_cast<NamedBy*>(nullptr), &hosts}) {
    CHECK(
        list_table(reader, {}, true, *named_form(text_form({.names = known}), names), into(text)));
    CHECK(list_table(reader, {}, true, *named_form(wide_form(known), names), into(text)));
  }
  return text;
}

std::string connections_page(const std::string& name) {
  OneConnection source;
  source.set_data(name);
  std::string text;
  CHECK(tell_connections(source, {}, names_with(name), into(text)));
  CHECK(list_connections(source, {}, true, nullptr, into(text)));
  return text;
}

std::string top_pages(const std::string& name) {
  Traffic traffic;
  const netlink::VirtualServiceKey key{.address = ip("10.96.8.1"), .port = 80};
  traffic.take({{.key = key, .servers = {{.key = {ip("10.244.0.9"), 8080}}}}});
  const auto names = names_with(name);
  std::string text;
  for (const bool by_backend : {false, true}) {
    const TopView view{.by_backend = by_backend};
    const auto table = top_table(traffic, view, names, 10);
    text += top_text(table);
    for (const auto& line : top_screen(table, view, {300, 5}, {}, "")) text += line + "\n";
  }
  return text;
}

std::string walk_page(const std::string& name) {
  PacketWalk walk{.flow = {.source = ip("203.0.113.7"),
                           .destination = ip("10.96.8.1"),
                           .port = 80,
                           .in_link = name}};
  const WalkStep step{.stage = "nat INPUT", .chain = name, .text = name, .found = name};
  walk.steps = {step};
  const auto names = names_with(name);
  LiveFlows live;
  live.unread = name;
  walk.arrival = {.fate = Fate::dropped, .why = name, .cautions = {name}};
  auto text = walk_text(walk, walk_names(names), &live);
  walk.arrival = {.fate = Fate::forwarded, .source_because = name, .out_link = name};
  text += walk_text(walk, walk_names(names), nullptr);
  walk.service =
      netlink::VirtualService{.key = {.address = ip("10.96.8.1"), .port = 80}, .scheduler = "rr"};
  walk.candidates = {{.server = {.key = {ip("10.244.0.9"), 8080}},
                      .steps = {step},
                      .arrival = {.fate = Fate::refused, .why = name, .cautions = {name}}}};
  return text + walk_text(walk, walk_names(names), nullptr);
}

std::string service_pages(const std::string& name) {
  NodePage page{.facts = {}, .names = names_with(name), .virtuals = {}};
  auto& decisions = page.facts.decisions.emplace();
  decisions.service.name = {name, name};
  decisions.refused = {name};
  decisions.draining = {{.service = name, .server = name, .for_ms = 1, .left_ms = {}}};
  decisions.last_change = {.when = name, .took_ms = 1};
  inspect::PagePort port{.name = name};
  port.facets = {{.address = ip("10.96.8.1"), .port = 80, .facet = name, .holder = name}};
  port.internal.endpoints = {
      {.address = ip("10.244.0.9"),
       .port = 8080,
       .use = name,
       .whereabouts = inspect::PageWhereabouts{.pod = name, .node = name, .zone = name}}};
  decisions.ports = {port};
  PageVirtual one{.key = {ip("10.96.8.1"), netlink::Protocol::tcp, 80},
                  .reading = netlink::ServiceReading{},
                  .servers = {netlink::ServerReading{}}};
  one.servers[0].listed.server.key = {ip("10.244.0.9"), 8080};
  page.virtuals = {one};
  page.facts.elements = {{.set = name, .element = name, .in_kernel = {}}};
  page.facts.node = {
      .rules = {{.set = name, .family = name, .table = name, .chain = name, .rule = name}},
      .unknown = {name}};
  return page_text(page);
}

std::string owner_pages(const std::string& name) {
  const auto names = names_with(name);
  const ipset::ListedSet set{.spec = {.name = "KUBE-CLUSTER-IP"},
                             .elements = {ipset::IpPortElement{.ip = ip("10.96.8.1"), .port = 80}}};
  const ElementOwners owners({netlink::Family::ipv4, ipset::SetId::cluster_ip}, names);
  const std::vector<netlink::VirtualService> services = {
      {.key = {.address = ip("10.96.8.1"), .port = 80}}};
  return elements_text(set, SetFormat::text, &owners) +
         addresses_text(address_rows({}, {}, services, names), SetFormat::text);
}

std::string rules_page(const std::string& name) {
  RuleReading reading;
  auto& table = reading.tables[{netlink::Family::ipv4, ipset::Table::nat}];
  ipset::Rule jump{.target = ipset::JumpTarget{"KUBE-SERVICES"}};
  jump.comment = name;
  ipset::Rule asks{.matches = {ipset::SetMatch{.set = name}}};
  asks.comment = name;
  table.chains["PREROUTING"] = {jump};
  table.chains["KUBE-SERVICES"] = {asks};
  return rules_text(reading, {}) +
         rules_text(reading, {.choice = {.family = netlink::Family::ipv4}, .form = RuleForm::save});
}

TEST_CASE("foreign text: no page for a terminal obeys it or breaks its lines") {
  for (const auto& [what, page] : std::map<std::string, std::string (*)(const std::string&)>{
           {"list", &table_page},
           {"connections", &connections_page},
           {"top", &top_pages},
           {"explain", &walk_page},
           {"service", &service_pages},
           {"sets, addresses", &owner_pages},
           {"rules", &rules_page}}) {
    INFO(what);
    const auto shown = page(kHostile);
    const auto expected = page(api::visible(kHostile));
    // A comment of a rule has its backslashes escaped.
    if (what != "rules") CHECK(shown == expected);
    CHECK(std::ranges::count(shown, '\n') == std::ranges::count(expected, '\n'));
    CHECK(shown == api::visible_lines(shown));
    CHECK(shown.find("\\u001b[2J") != std::string::npos);
  }
}

}  // namespace
}  // namespace ipvsproxier::ctl

#include "cmd/ipvsctl/listing/table_form.h"

#include <map>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/fakes/fake_ipvs_reader.h"

namespace ipvsproxier::ctl {
namespace {

using namespace netlink;
using test::read_mark;
using test::read_server;
using test::read_service;

// The expected lines are what ipvsadm 1.31 printed for such entries.

std::string service_line_of(const ServiceReading& service, const TextStyle& style = {}) {
  std::string text;
  text_form(style)->begin_service(text, service);
  return text;
}

std::string server_line_of(const ServerReading& server, const TextStyle& style = {},
                           const ServiceReading& service = read_service("10.0.0.1", 80)) {
  std::string text;
  text_form(style)->server(text, service, server);
  return text;
}

TEST_CASE("text: the titles of each kind of columns") {
  const auto [columns, expected] = GENERATE(table<Columns, std::string>({
      {Columns::plain,
       "Prot LocalAddress:Port Scheduler Flags\n"
       "  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n"},
      {Columns::stats,
       "Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes\n"
       "  -> RemoteAddress:Port\n"},
      {Columns::rate,
       "Prot LocalAddress:Port                 CPS    InPPS   OutPPS    InBPS   OutBPS\n"
       "  -> RemoteAddress:Port\n"},
      {Columns::thresholds,
       "Prot LocalAddress:Port            Uthreshold Lthreshold ActiveConn InActConn \n"
       "  -> RemoteAddress:Port\n"},
      {Columns::persistent,
       "Prot LocalAddress:Port            Weight    PersistConn ActiveConn InActConn \n"
       "  -> RemoteAddress:Port\n"},
      {Columns::tunnels,
       "Prot LocalAddress:Port Scheduler Flags\n"
       "  -> RemoteAddress:Port           Forward TunnelInfo    Weight ActiveConn InActConn\n"},
  }));
  std::string text;
  text_form({.columns = columns})
      ->begin(text, {.version = 0x010201, .connection_table_size = 4096});
  CHECK(text == "IP Virtual Server version 1.2.1 (size=4096)\n" + expected);
}

TEST_CASE("text: scheduling of a service") {
  auto one = read_service("10.0.0.1", 80);
  CHECK(service_line_of(one) == "TCP  10.0.0.1:80 rr\n");
  one.service.flags = kSchedulerFlag1;
  CHECK(service_line_of(one) == "TCP  10.0.0.1:80 rr (flag-1)\n");
  one.service.scheduler = "mh";
  one.service.flags = kSchedulerFlag2 | kPersistent | kOnePacket;
  one.service.timeout = 300;
  one.service.netmask_bits = 24;
  one.service.persistence_engine = "sip";
  CHECK(service_line_of(one) ==
        "TCP  10.0.0.1:80 mh (mh-port) persistent 300 mask 255.255.255.0 pe sip ops\n");
  one.odd_netmask = 0xff00ff00;
  CHECK(service_line_of(one, {.columns = Columns::thresholds}) ==
        "TCP  10.0.0.1:80 mh (mh-port) persistent 300 mask 255.0.255.0 pe sip ops\n");
  CHECK(service_line_of(read_mark(7, Family::ipv4)) == "FWM  7 wlc\n");
  CHECK(service_line_of(read_mark(7, Family::ipv6)) == "FWM  7 IPv6 wlc\n");
  CHECK(service_line_of(read_service("fd00::1", 53, Protocol::udp)) == "UDP  [fd00::1]:53 rr\n");
  CHECK(service_line_of(read_service("10.0.0.1", 99, Protocol::sctp)) == "SCTP 10.0.0.1:99 rr\n");
}

TEST_CASE("text: every column of a server") {
  auto one = read_server("10.1.0.2", 8080, 3);
  one.listed.server.upper_threshold = 100;
  one.listed.server.lower_threshold = 50;
  one.listed.active_connections = 7;
  one.listed.inactive_connections = 8;
  one.listed.persistent_connections = 9;
  CHECK(server_line_of(one) ==
        "  -> 10.1.0.2:8080                Masq    3      7          8         \n");
  CHECK(server_line_of(one, {.columns = Columns::thresholds}) ==
        "  -> 10.1.0.2:8080                100        50         7          8         \n");
  CHECK(server_line_of(one, {.columns = Columns::persistent}) ==
        "  -> 10.1.0.2:8080                3         9           7          8         \n");
  CHECK(server_line_of(one, {.columns = Columns::tunnels}) ==
        "  -> 10.1.0.2:8080                Masq    n/a           3      7          8         \n");
  one.listed.server.method = ForwardMethod::tunnel;
  one.listed.server.tunnel_type = 1;
  one.listed.server.tunnel_port = 6080;
  one.listed.server.tunnel_flags = 2;
  CHECK(server_line_of(one, {.columns = Columns::tunnels}) ==
        "  -> 10.1.0.2:8080                Tunnel  gue:6080:r+c  3      7          8         \n");
  one.listed.server.tunnel_type = 2;
  one.listed.server.tunnel_flags = 1;
  CHECK(server_line_of(one, {.columns = Columns::tunnels}) ==
        "  -> 10.1.0.2:8080                Tunnel  gre:+c        3      7          8         \n");
}

TEST_CASE("text: numbers are whole up to 100 million, then thousands and more") {
  auto one = read_service("10.0.0.1", 80);
  one.traffic = {.connections = 99'999'999,
                 .packets_in = 999'999'999,
                 .packets_out = 99'999'999'999,
                 .bytes_in = 99'999'999'999'999,
                 .bytes_out = 100'000'000'000'000};
  CHECK(service_line_of(one, {.columns = Columns::stats}) ==
        "TCP  10.0.0.1:80                  99999999  999999K   99999M   99999G     100T\n");
  CHECK(service_line_of(one, {.columns = Columns::stats, .exact = true}) ==
        "TCP  10.0.0.1:80                  99999999 999999999 99999999999 99999999999999"
        " 100000000000000\n");
}

TEST_CASE("text: a server's rates of connections and packets are always whole") {
  auto one = read_server("10.1.0.2", 80);
  one.traffic = {.connection_rate = 123'456'789,
                 .packet_rate_in = 2,
                 .packet_rate_out = 3,
                 .byte_rate_in = 123'456'789,
                 .byte_rate_out = 5};
  CHECK(server_line_of(one, {.columns = Columns::rate}) ==
        "  -> 10.1.0.2:80                  123456789        2        3  123456K        5\n");
}

class GivenNames final : public AddressNames {
 public:
  std::optional<std::string> host(const IpAddress& address) override {
    const auto found = hosts.find(address);
    return found == hosts.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string> service(std::uint16_t port, Protocol protocol) override {
    if (port != 80 || protocol != Protocol::tcp) return std::nullopt;
    return "http";
  }
  std::map<IpAddress, std::string> hosts;
};

TEST_CASE("text: names where there are some, cut where ipvsadm cuts them") {
  GivenNames names;
  names.hosts = {{*IpAddress::parse("10.0.0.1"), "a-rather-long-name.of.example.org"},
                 {*IpAddress::parse("fd00::1"), std::string(70, 'x')}};
  const TextStyle style{.names = &names};
  CHECK(service_line_of(read_service("10.0.0.2", 80), style) == "TCP  10.0.0.2:http rr\n");
  CHECK(service_line_of(read_service("10.0.0.2", 80, Protocol::udp), style) ==
        "UDP  10.0.0.2:80 rr\n");
  CHECK(service_line_of(read_service("10.0.0.1", 80), style) ==
        "TCP  a-rather-long-name.of.exampl rr\n");
  CHECK(service_line_of(read_service("fd00::1", 80), style) ==
        "TCP  [" + std::string(58, 'x') + " rr\n");
  CHECK(server_line_of(read_server("10.0.0.1", 80), style) ==
        "  -> a-rather-long-name.of.exampl Masq    1      0          0         \n");
  // Of a firewall-mark service nobody knows the protocol, so a port has no name.
  CHECK(server_line_of(read_server("10.0.0.2", 80), style, read_mark(7, Family::ipv4)) ==
        "  -> 10.0.0.2:80                  Masq    1      0          0         \n");
}

TEST_CASE("wide: nothing is cut, everything is shown") {
  auto one = read_server("fd00:1:2:3:4:5:6:7777", 65535, 3);
  one.listed.server.upper_threshold = 100;
  one.listed.persistent_connections = 9;
  const auto form = wide_form(nullptr);
  std::string text;
  form->begin(text, {.version = 0x010201, .connection_table_size = 4096});
  const auto title = text.size();
  form->begin_service(text, read_service("fd00::1", 80));
  form->server(text, read_service("fd00::1", 80), one);
  CHECK(text.substr(title) ==
        "TCP  [fd00::1]:80 rr\n"
        "  -> [fd00:1:2:3:4:5:6:7777]:65535                   Masq    -                         3"
        "        100          0          0          0           9\n");
}

std::string document_of(const std::unique_ptr<TableForm>& form) {
  std::string text;
  form->begin(text, {.version = 0x010201, .connection_table_size = 4096});
  auto sticky = read_service("10.0.0.1", 80);
  sticky.service.flags = kPersistent;
  sticky.service.timeout = 300;
  sticky.traffic.bytes_in = 1ULL << 60;
  form->begin_service(text, sticky);
  form->server(text, sticky, read_server("10.1.0.2", 8080));
  form->server(text, sticky, read_server("10.1.0.3", 8080, 0));
  form->end_service(text);
  form->begin_service(text, read_mark(7, Family::ipv6));
  form->end_service(text);
  form->end(text);
  return text;
}

TEST_CASE("json: one document, whatever the number of services") {
  const auto document = nlohmann::json::parse(document_of(json_form()));
  CHECK(document["version"] == "1.2.1");
  CHECK(document["connectionTableSize"] == 4096);
  const auto& services = document["virtualServices"];
  REQUIRE(services.size() == 2);
  CHECK(services[0]["address"] == "10.0.0.1");
  CHECK(services[0]["protocol"] == "TCP");
  CHECK(services[0]["persistenceTimeoutSeconds"] == 300);
  CHECK(services[0]["traffic"]["bytesIn"] == 1ULL << 60);
  REQUIRE(services[0]["realServers"].size() == 2);
  CHECK(services[0]["realServers"][1]["address"] == "10.1.0.3");
  CHECK(services[0]["realServers"][1]["weight"] == 0);
  CHECK(services[1]["fwmark"] == 7);
  CHECK(services[1]["family"] == "IPv6");
  CHECK_FALSE(services[1].contains("address"));
  CHECK(services[1]["realServers"].empty());

  const auto form = json_form();
  std::string empty;
  form->begin(empty, {});
  form->end(empty);
  CHECK(nlohmann::json::parse(empty)["virtualServices"] == nlohmann::json::array());
}

// default/web on 10.0.0.1:80 and its endpoint 10.1.0.2:8080.
ClusterNames web_names(const std::string& pod, const std::string& conditions) {
  ClusterNames names;
  REQUIRE(names.take_page(R"({"services":[{"namespace":"shop","name":"web",)"
                          R"("virtual":[["10.0.0.1",80,"TCP","http","node port"]],)"
                          R"("slices":[{"ports":[8080],"endpoints":[["10.1.0.2",")" +
                          pod + R"(","n1","z1",)" + conditions + R"(]]}]}],"continue":""})"));
  return names;
}

TEST_CASE("names stand behind the columns, and only where there are some") {
  const auto names = web_names("web-1", "false,true,true");
  const auto form = named_form(text_form({}), names);
  std::string text;
  form->begin(text, {.version = 0x010201, .connection_table_size = 4096});
  const auto service = read_service("10.0.0.1", 80);
  form->begin_service(text, service);
  form->server(text, service, read_server("10.1.0.2", 8080));
  form->server(text, service, read_server("10.1.0.3", 8080));
  form->end_service(text);
  form->begin_service(text, read_service("10.0.0.2", 80));
  form->end(text);
  CHECK(text ==
        "IP Virtual Server version 1.2.1 (size=4096)\n"
        "Prot LocalAddress:Port Scheduler Flags                                 "
        "Service                              Facet\n"
        "  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn  "
        "Pod                                  Node                 Zone         Condition\n"
        "TCP  10.0.0.1:80 rr                                                    "
        "shop/web:http                        node port\n"
        "  -> 10.1.0.2:8080                Masq    1      0          0          "
        "web-1                                n1                   z1           terminating\n"
        "  -> 10.1.0.3:8080                Masq    1      0          0         \n"
        "TCP  10.0.0.2:80 rr\n");
}

TEST_CASE("names that are long move what is behind them, columns that are empty leave no blanks") {
  const auto names = web_names(std::string(40, 'p'), "true,true,false");
  const auto form = named_form(wide_form(nullptr), names);
  std::string text;
  form->server(text, read_service("10.0.0.1", 80), read_server("10.1.0.2", 8080));
  CHECK(text.ends_with(" " + std::string(40, 'p') + " n1                   z1\n"));
}

TEST_CASE("json: indented, keys in order, nothing escaped that need not be") {
  std::string text;
  const auto form = json_form();
  form->begin(text, {.version = 0x010201, .connection_table_size = 4096});
  for (const char* address : {"10.0.0.1", "10.0.0.2"}) {
    auto service = read_service(address, 80);
    form->begin_service(text, service);
    if (std::string(address) == "10.0.0.2") {
      form->server(text, service, read_server("10.1.0.2", 8080));
      form->server(text, service, read_server("10.1.0.3", 8080));
    }
    form->end_service(text);
  }
  form->end(text);
  CHECK(text == nlohmann::json::parse(text).dump(2) + "\n");
}

TEST_CASE("virtual services of other programs are foreign, in text and documents") {
  ClusterNames names;
  REQUIRE(names.take_page(R"({"services":[],"foreign":[["192.0.2.10",80,"TCP"]],"continue":""})"));
  std::string text;
  const auto form = named_form(text_form({}), names);
  form->begin(text, {.version = 0x010201, .connection_table_size = 4096});
  text.clear();
  form->begin_service(text, read_service("192.0.2.10", 80));
  form->begin_service(text, read_service("192.0.2.10", 81));
  CHECK(text ==
        "TCP  192.0.2.10:80 rr                                                  foreign\n"
        "TCP  192.0.2.10:81 rr\n");
  std::string json;
  const auto document_form = json_form(&names);
  document_form->begin(json, {});
  for (const auto port : {std::uint16_t{80}, std::uint16_t{81}}) {
    document_form->begin_service(json, read_service("192.0.2.10", port));
    document_form->end_service(json);
  }
  document_form->end(json);
  const auto document = nlohmann::json::parse(json)["virtualServices"];
  CHECK(document[0]["foreign"] == true);
  CHECK_FALSE(document[1].contains("foreign"));
}

TEST_CASE("documents carry names") {
  const auto names = web_names("web-1", "true,true,false");
  const auto form = json_form(&names);
  std::string text;
  form->begin(text, {});
  const auto service = read_service("10.0.0.1", 80);
  form->begin_service(text, service);
  form->server(text, service, read_server("10.1.0.2", 8080));
  form->server(text, service, read_server("10.1.0.3", 8080));
  form->end_service(text);
  form->end(text);
  const auto document = nlohmann::json::parse(text)["virtualServices"][0];
  CHECK(document["service"].dump() ==
        R"({"facet":"node port","name":"web","namespace":"shop","port":"http"})");
  CHECK(
      document["realServers"][0]["endpoint"].dump() ==
      R"({"node":"n1","pod":"web-1","ready":true,"serving":true,"terminating":false,"zone":"z1"})");
  CHECK_FALSE(document["realServers"][1].contains("endpoint"));
}

}  // namespace
}  // namespace ipvsproxier::ctl

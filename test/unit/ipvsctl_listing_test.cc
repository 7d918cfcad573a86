#include "cmd/ipvsctl/listing/listing.h"

#include <catch2/catch.hpp>

#include "test/fakes/fake_ipvs_reader.h"

namespace ipvsproxier::ctl {
namespace {

using namespace netlink;
using test::FakeIpvsReader;
using test::read_mark;
using test::read_server;
using test::read_service;

FakeIpvsReader small_table() {
  return FakeIpvsReader({
      {read_service("10.0.0.2", 80), {read_server("10.1.0.9", 80), read_server("10.1.0.2", 80)}},
      {read_service("10.0.0.1", 53, Protocol::udp),
       {read_server("10.1.0.3", 53, 0), read_server("10.1.0.2", 53)}},
      {read_service("10.0.0.1", 80), {}},
      {read_mark(7, Family::ipv4), {read_server("10.1.0.2", 0)}},
  });
}

// The table as save_form() has it.
std::string listed(const ListFilter& filter, bool sorted = true) {
  auto reader = small_table();
  std::string text;
  const auto status =
      list_table(reader, filter, sorted, *save_form(), [&](std::string_view part) -> Status {
        text += part;
        return {};
      });
  REQUIRE(status);
  return text;
}

TEST_CASE("listing: sorted as ipvsadm sorts, or in the order in which it is read") {
  CHECK(listed({}) ==
        "-A -t 10.0.0.1:80 -s rr\n"
        "-A -t 10.0.0.2:80 -s rr\n"
        "-a -t 10.0.0.2:80 -r 10.1.0.2:80 -m -w 1\n"
        "-a -t 10.0.0.2:80 -r 10.1.0.9:80 -m -w 1\n"
        "-A -u 10.0.0.1:53 -s rr\n"
        "-a -u 10.0.0.1:53 -r 10.1.0.2:53 -m -w 1\n"
        "-a -u 10.0.0.1:53 -r 10.1.0.3:53 -m -w 0\n"
        "-A -f 7 -s wlc\n"
        "-a -f 7 -r 10.1.0.2:0 -m -w 1\n");
  CHECK(listed({}, false) ==
        "-A -t 10.0.0.2:80 -s rr\n"
        "-a -t 10.0.0.2:80 -r 10.1.0.9:80 -m -w 1\n"
        "-a -t 10.0.0.2:80 -r 10.1.0.2:80 -m -w 1\n"
        "-A -u 10.0.0.1:53 -s rr\n"
        "-a -u 10.0.0.1:53 -r 10.1.0.3:53 -m -w 0\n"
        "-a -u 10.0.0.1:53 -r 10.1.0.2:53 -m -w 1\n"
        "-A -t 10.0.0.1:80 -s rr\n"
        "-A -f 7 -s wlc\n"
        "-a -f 7 -r 10.1.0.2:0 -m -w 1\n");
}

TEST_CASE("listing: conditions on services keep their servers") {
  const bool sorted = GENERATE(true, false);
  CHECK(listed({.vip = IpPrefix::parse("10.0.0.2/32")}, sorted).find("10.1.0.9:80") !=
        std::string::npos);
  CHECK(
      listed({.vip = IpPrefix::parse("10.0.0.0/24"), .port = 80, .protocol = Protocol::udp}, sorted)
          .empty());
}

TEST_CASE("listing: conditions on servers keep only those and their services") {
  const bool sorted = GENERATE(true, false);
  CHECK(listed({.draining = true}, sorted) ==
        "-A -u 10.0.0.1:53 -s rr\n"
        "-a -u 10.0.0.1:53 -r 10.1.0.3:53 -m -w 0\n");
  CHECK(listed({.backend = Backend::parse("10.1.0.2:80")}, sorted) ==
        "-A -t 10.0.0.2:80 -s rr\n"
        "-a -t 10.0.0.2:80 -r 10.1.0.2:80 -m -w 1\n");
  CHECK(listed({.backend = Backend::parse("10.1.0.2"), .draining = true}, sorted).empty());
}

TEST_CASE("listing: services without a server") {
  const bool sorted = GENERATE(true, false);
  CHECK(listed({.empty = true}, sorted) == "-A -t 10.0.0.1:80 -s rr\n");
  CHECK(listed({.protocol = Protocol::udp, .empty = true}, sorted).empty());
}

TEST_CASE("listing: it is passed on in parts, and ends when nobody takes them") {
  std::vector<ServerReading> servers;
  constexpr int kServers = 10'000;
  for (int i = 0; i < kServers; ++i)
    servers.push_back(read_server("10.1.0.2", static_cast<std::uint16_t>(i + 1)));
  FakeIpvsReader reader({{read_service("10.0.0.1", 80), servers}});
  std::size_t largest = 0;
  std::size_t total = 0;
  REQUIRE(list_table(reader, {}, false, *save_form(), [&](std::string_view part) -> Status {
    largest = std::max(largest, part.size());
    total += part.size();
    return {};
  }));
  CHECK(total > 400'000);
  CHECK(largest < 40'000);

  FakeIpvsReader again({{read_service("10.0.0.1", 80), servers}});
  const auto status = list_table(again, {}, false, *save_form(), [](std::string_view) -> Status {
    return Error{ErrorKind::io, 32, "gone"};
  });
  REQUIRE_FALSE(status);
  CHECK(status.error().where == "gone");
  CHECK(again.servers_read() < kServers / 2);
}

class GivenConnections final : public ConnectionSource {
 public:
  Status connections(const std::function<Status(const IpvsConnection&)>& each) override {
    const IpvsConnection one{.protocol = "TCP",
                             .client_address = *IpAddress::parse("10.0.0.9"),
                             .client_port = 40000,
                             .virtual_address = *IpAddress::parse("10.0.0.1"),
                             .virtual_port = 80,
                             .server_address = *IpAddress::parse("10.1.0.2"),
                             .server_port = 8080,
                             .state = "ESTABLISHED",
                             .expires = 899};
    auto other = one;
    other.protocol = "UDP";
    other.state = "NONE";
    other.expires = 6000;
    other.persistence_engine = "sip";
    other.persistence_data = "7@host";
    if (auto status = each(one); !status) return status;
    return each(other);
  }
};

std::string connections(const ListFilter& filter, bool persistence) {
  GivenConnections source;
  std::string text;
  REQUIRE(list_connections(source, filter, persistence, nullptr, [&](std::string_view part) {
    text += part;
    return Status{};
  }));
  return text;
}

TEST_CASE("listing: connections") {
  CHECK(connections({}, false) ==
        "IPVS connection entries\n"
        "pro expire state       source             virtual            destination\n"
        "TCP 14:59  ESTABLISHED 10.0.0.9:40000     10.0.0.1:80        10.1.0.2:8080\n"
        "UDP 100:00 NONE        10.0.0.9:40000     10.0.0.1:80        10.1.0.2:8080\n");
  CHECK(
      connections({.protocol = Protocol::udp}, true) ==
      "IPVS connection entries\n"
      "pro expire state       source             virtual            destination        pe name    "
      "      pe_data\n"
      "UDP 100:00 NONE        10.0.0.9:40000     10.0.0.1:80        10.1.0.2:8080    sip          "
      "      7@host\n");
}

TEST_CASE("listing: timeouts and sync daemons") {
  CHECK(timeout_text({.tcp = 900, .tcp_fin = 120, .udp = 300}) ==
        "Timeout (tcp tcpfin udp): 900 120 300\n");
  CHECK(daemon_text({}).empty());
  CHECK(
      daemon_text({{.master = true, .interface = "d0", .sync_id = 7},
                   {.interface = "d0",
                    .sync_id = 9,
                    .max_length = 1472,
                    .group = IpAddress::parse("224.0.0.81"),
                    .port = 8848,
                    .ttl = 1}}) ==
      "master sync daemon (mcast=d0, syncid=7)\n"
      "backup sync daemon (mcast=d0, syncid=9, maxlen=1472, group=224.0.0.81, port=8848, ttl=1)\n");
}

}  // namespace
}  // namespace ipvsproxier::ctl

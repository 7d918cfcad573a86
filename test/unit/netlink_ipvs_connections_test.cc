#include "netlink/ipvs/ipvs_connections.h"

#include <fstream>

#include <catch2/catch.hpp>

#include "test/support/temp_dir.h"

namespace ipvsproxier::netlink {
namespace {

IpAddress ip(const std::string& text) {
  return *IpAddress::parse(text);
}

TEST_CASE("a connection over IPv4 is read") {
  const auto connection =
      parse_connection("TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED     899");
  REQUIRE(connection);
  CHECK(*connection == IpvsConnection{.protocol = "TCP",
                                      .client_address = ip("10.0.0.1"),
                                      .client_port = 0x8f4a,
                                      .virtual_address = ip("10.96.0.1"),
                                      .virtual_port = 443,
                                      .server_address = ip("192.168.10.2"),
                                      .server_port = 6443,
                                      .state = "ESTABLISHED",
                                      .expires = 899});
}

TEST_CASE("a connection over IPv6, and one to a server of the other family, are read") {
  const auto six = parse_connection(
      "UDP fd00:0000:0000:0000:0000:0000:0000:0001 8F4A fd00:0000:0000:0000:0000:0000:0000:0002 "
      "0035 fd00:0000:0000:0000:0000:0000:0000:0003 0035 UDP             299");
  REQUIRE(six);
  CHECK(six->client_address == ip("fd00::1"));
  CHECK(six->server_address == ip("fd00::3"));
  const auto mixed = parse_connection(
      "TCP 0A000001 8F4A 0A600001 0050 fd00:0000:0000:0000:0000:0000:0000:0003 0050 SYN_RECV 59");
  REQUIRE(mixed);
  CHECK(mixed->virtual_address == ip("10.96.0.1"));
  CHECK(mixed->server_address == ip("fd00::3"));
}

TEST_CASE("what a persistence engine found is read up to its first blank") {
  const auto connection =
      parse_connection("UDP 0A000001 0000 0A600001 13C4 0A0A0002 13C4 NONE 53 sip call 7@host");
  REQUIRE(connection);
  CHECK(connection->persistence_engine == "sip");
  CHECK(connection->persistence_data == "call");
}

TEST_CASE("lines that are no connection are malformed") {
  const auto* line = GENERATE(
      "", "   ", "TCP", "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires",
      "TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED",
      "TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED -1",
      "TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED 5x",
      "TCP 0A000001 8F4A1 0A600001 01BB C0A80A02 192B ESTABLISHED 5",
      "TCP 1A000001F 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED 5",
      "TCP 0A00000G 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED 5",
      "TCP 0x0A0000 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED 5",
      "TCP fd00::1:: 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED 5",
      "TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B ESTABLISHED 99999999999");
  CAPTURE(line);
  const auto connection = parse_connection(line);
  REQUIRE_FALSE(connection);
  CHECK(connection.error().kind == ErrorKind::malformed);
}

struct Listed {
  Status status;
  std::vector<std::string> states;
};

Listed list(const std::string& path, const std::string& stop_at = "") {
  Listed listed;
  listed.status = ConnectionFile(path).connections([&](const IpvsConnection& one) -> Status {
    if (one.state == stop_at) return Error{ErrorKind::io, 0, "enough"};
    listed.states.push_back(one.state);
    return {};
  });
  return listed;
}

TEST_CASE("a file of connections is read line by line, without its title") {
  const test::TempDir folder;
  const auto path = (folder.path() / "connections").string();
  std::ofstream(path)
      << "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName\n"
         "TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B ONE 1\n"
         "TCP 0A000001 8F4A 0A600001 01BB C0A80A02 192B TWO 2\n";
  const auto all = list(path);
  CHECK(all.status);
  CHECK(all.states == std::vector<std::string>{"ONE", "TWO"});
  const auto some = list(path, "TWO");
  REQUIRE_FALSE(some.status);
  CHECK(some.status.error().where == "enough");
  CHECK(some.states.size() == 1);

  std::ofstream(path, std::ios::app) << "odd\n";
  const auto odd = list(path);
  REQUIRE_FALSE(odd.status);
  CHECK(odd.status.error().kind == ErrorKind::malformed);
  CHECK(odd.states.size() == 2);
}

TEST_CASE("without the file the module is not loaded") {
  const test::TempDir folder;
  const auto listed = list((folder.path() / "absent").string());
  REQUIRE_FALSE(listed.status);
  CHECK(listed.status.error().kind == ErrorKind::missing);
  CHECK(listed.status.error().where.find("modprobe ip_vs") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::netlink

#include "test/support/saved_table.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

using namespace netlink;
using test::format_save;

VirtualService service(const std::string& ip, std::uint16_t port,
                       Protocol protocol = Protocol::tcp) {
  const auto address = *IpAddress::parse(ip);
  return {.key = {.address = address, .protocol = protocol, .port = port},
          .scheduler = "rr",
          .netmask_bits = address_bits(address.family())};
}

VirtualService marked(std::uint32_t mark, Family family) {
  return {.key = {.address = IpAddress::any(family), .fwmark = mark},
          .scheduler = "rr",
          .netmask_bits = address_bits(family)};
}

RealServer server(const std::string& ip, std::uint16_t port) {
  return {.key = {*IpAddress::parse(ip), port}};
}

// The expected lines are what ipvsadm-save -n of ipvsadm 1.31 printed for the same entries.
std::string line(const VirtualService& one) {
  return format_save({{.service = one}});
}

std::string server_line(const RealServer& one) {
  const auto text = format_save({{service("10.0.0.1", 80), {ListedServer{one}}}});
  return text.substr(text.find('\n') + 1);
}

TEST_CASE("save: of an empty table nothing") {
  CHECK(format_save({}).empty());
}

TEST_CASE("save: every kind of service") {
  CHECK(line(service("10.0.0.1", 80)) == "-A -t 10.0.0.1:80 -s rr\n");
  CHECK(line(service("10.0.0.1", 53, Protocol::udp)) == "-A -u 10.0.0.1:53 -s rr\n");
  CHECK(line(service("10.0.0.1", 99, Protocol::sctp)) == "-A --sctp-service 10.0.0.1:99 -s rr\n");
  CHECK(line(service("fd00::1", 80)) == "-A -t [fd00::1]:80 -s rr\n");
  CHECK(line(marked(7, Family::ipv4)) == "-A -f 7 -s rr\n");
  CHECK(line(marked(8, Family::ipv6)) == "-A -f 8 -6 -s rr\n");
  CHECK(line(marked(3'000'000'000U, Family::ipv4)) == "-A -f -1294967296 -s rr\n");
}

TEST_CASE("save: persistence and its mask") {
  auto sticky = service("192.168.1.1", 443);
  sticky.netmask_bits = 24;
  CHECK(line(sticky) == "-A -t 192.168.1.1:443 -s rr\n");
  sticky.flags = kPersistent;
  sticky.timeout = 300;
  CHECK(line(sticky) == "-A -t 192.168.1.1:443 -s rr -p 300 -M 255.255.255.0\n");
  sticky.netmask_bits = 0;
  CHECK(line(sticky) == "-A -t 192.168.1.1:443 -s rr -p 300 -M 0.0.0.0\n");
  sticky.netmask_bits = 32;
  CHECK(line(sticky) == "-A -t 192.168.1.1:443 -s rr -p 300\n");
  auto sixth = service("fd00::2", 80);
  sixth.flags = kPersistent;
  sixth.timeout = 60;
  CHECK(line(sixth) == "-A -t [fd00::2]:80 -s rr -p 60\n");
  sixth.netmask_bits = 64;
  CHECK(line(sixth) == "-A -t [fd00::2]:80 -s rr -p 60 -M 64\n");
}

TEST_CASE("save: engine, one packet and scheduler flags, in this order") {
  auto sip = service("10.0.0.2", 5060, Protocol::udp);
  sip.scheduler = "mh";
  sip.flags = kPersistent | kOnePacket | kSchedulerFlag1 | kSchedulerFlag2;
  sip.timeout = 30;
  sip.persistence_engine = "sip";
  CHECK(line(sip) == "-A -u 10.0.0.2:5060 -s mh -p 30 --pe sip -o -b mh-fallback,mh-port\n");
  auto flagged = service("10.0.0.3", 1);
  flagged.flags = kSchedulerFlag1 | kSchedulerFlag2 | kSchedulerFlag3;
  flagged.scheduler = "lc";
  CHECK(line(flagged) == "-A -t 10.0.0.3:1 -s lc -b flag-1,flag-2,flag-3\n");
  flagged.scheduler = "sh";
  CHECK(line(flagged) == "-A -t 10.0.0.3:1 -s sh -b sh-fallback,sh-port\n");
  flagged.flags = kSchedulerFlag3;
  CHECK(line(flagged) == "-A -t 10.0.0.3:1 -s sh -b \n");
}

TEST_CASE("save: every kind of real server") {
  auto one = server("10.1.0.2", 8080);
  one.weight = 0;
  one.upper_threshold = 100;
  one.lower_threshold = 50;
  CHECK(server_line(one) == "-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -m -w 0\n");
  one.method = ForwardMethod::route;
  one.weight = 65535;
  CHECK(server_line(one) == "-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -g -w 65535\n");
  one.method = ForwardMethod::local;
  CHECK(server_line(one) == "-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -g -w 65535\n");
}

TEST_CASE("save: tunnels") {
  auto tunnel = server("10.1.0.5", 443);
  tunnel.method = ForwardMethod::tunnel;
  const std::string start = "-a -t 10.0.0.1:80 -r 10.1.0.5:443 -i -w 1 ";
  CHECK(server_line(tunnel) == start + "--tun-type ipip\n");
  tunnel.tunnel_type = 1;
  tunnel.tunnel_port = 6080;
  CHECK(server_line(tunnel) == start + "--tun-type gue --tun-port 6080 --tun-nocsum\n");
  tunnel.tunnel_flags = 1;
  CHECK(server_line(tunnel) == start + "--tun-type gue --tun-port 6080 --tun-csum\n");
  tunnel.tunnel_flags = 2;
  CHECK(server_line(tunnel) == start + "--tun-type gue --tun-port 6080 --tun-remcsum\n");
  tunnel.tunnel_type = 2;
  tunnel.tunnel_flags = 0;
  CHECK(server_line(tunnel) == start + "--tun-type gre --tun-nocsum\n");
}

TEST_CASE("save: services by mark, family, protocol, address, port; wide gaps wrap around") {
  const auto text = format_save({{marked(7, Family::ipv4)},
                                 {service("fd00::1", 80)},
                                 {service("10.0.0.1", 53, Protocol::udp)},
                                 {service("10.0.0.1", 443)},
                                 {service("10.0.0.1", 80)},
                                 {service("192.168.1.1", 80)},
                                 {marked(3'000'000'000U, Family::ipv4)}});
  CHECK(text ==
        "-A -f -1294967296 -s rr\n"
        "-A -t 192.168.1.1:80 -s rr\n"
        "-A -t 10.0.0.1:80 -s rr\n"
        "-A -t 10.0.0.1:443 -s rr\n"
        "-A -u 10.0.0.1:53 -s rr\n"
        "-A -t [fd00::1]:80 -s rr\n"
        "-A -f 7 -s rr\n");
}

TEST_CASE("save: servers follow their service, by address and port") {
  CHECK(format_save(
            {{service("10.0.0.1", 80),
              {ListedServer{server("10.1.0.9", 80)}, ListedServer{server("10.1.0.2", 81)},
               ListedServer{server("10.1.0.2", 80)}, ListedServer{server("192.168.0.2", 80)}}}}) ==
        "-A -t 10.0.0.1:80 -s rr\n"
        "-a -t 10.0.0.1:80 -r 192.168.0.2:80 -m -w 1\n"
        "-a -t 10.0.0.1:80 -r 10.1.0.2:80 -m -w 1\n"
        "-a -t 10.0.0.1:80 -r 10.1.0.2:81 -m -w 1\n"
        "-a -t 10.0.0.1:80 -r 10.1.0.9:80 -m -w 1\n");
  CHECK(format_save({}).empty());
}

TEST_CASE("save: wide gaps between IPv6 addresses wrap around too, in each four bytes") {
  const auto text = format_save(
      {{service("fd00::3", 80),
        {ListedServer{server("2001:db8::9", 80)}, ListedServer{server("fd00:7::2", 80)},
         ListedServer{server("fd00:7::1", 80)}, ListedServer{server("fd00:7::f000:0", 80)}}}});
  CHECK(text ==
        "-A -t [fd00::3]:80 -s rr\n"
        "-a -t [fd00::3]:80 -r [fd00:7::f000:0]:80 -m -w 1\n"
        "-a -t [fd00::3]:80 -r [fd00:7::1]:80 -m -w 1\n"
        "-a -t [fd00::3]:80 -r [fd00:7::2]:80 -m -w 1\n"
        "-a -t [fd00::3]:80 -r [2001:db8::9]:80 -m -w 1\n");
}

TEST_CASE("save: servers of the other family fall where ipvsadm's comparison puts them") {
  auto sixth = server("fd00:1::9", 443);
  sixth.method = ForwardMethod::tunnel;
  const auto text = format_save(
      {{service("10.0.0.1", 80), {ListedServer{server("10.1.0.2", 443)}, ListedServer{sixth}}}});
  CHECK(text.find("[fd00:1::9]") < text.find("10.1.0.2:443"));
}

}  // namespace
}  // namespace ipvsproxier::ctl

#include <random>

#include <catch2/catch.hpp>

#include "netlink/ipvs_kernel.h"
#include "test/contract/ipvs_contract.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

void check_same() {
  const auto expected = shell("ipvsadm-save -n");
  CHECK(shell(ipvsctl_path() + " list -o save") == expected);
}

TEST_CASE("kernel: ipvsctl list -o save prints what ipvsadm-save -n prints") {
  FreshNetns netns;
  check_same();
  shell(R"(
    ipvsadm-restore <<'END'
-A -t 10.0.0.1:80 -s rr
-a -t 10.0.0.1:80 -r 10.1.0.9:8080 -m -w 1
-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -m -w 0
-a -t 10.0.0.1:80 -r 192.168.0.2:80 -m -w 3 -x 100 -y 50
-A -t 192.168.1.1:80 -s wrr -p 600
-a -t 192.168.1.1:80 -r 10.1.0.2:80 -g -w 65535
-A -t 192.168.1.1:443 -s sh -b sh-port,sh-fallback -p 300 -M 255.255.255.0
-a -t 192.168.1.1:443 -r 10.1.0.2:443 -i
-a -t 192.168.1.1:443 -r 10.1.0.3:443 -i --tun-type gue --tun-port 6080
-a -t 192.168.1.1:443 -r 10.1.0.4:443 -i --tun-type gue --tun-port 6081 --tun-csum
-a -t 192.168.1.1:443 -r 10.1.0.5:443 -i --tun-type gue --tun-port 6081 --tun-remcsum
-a -t 192.168.1.1:443 -r 10.1.0.6:443 -i --tun-type gre
-a -t 192.168.1.1:443 -r 10.1.0.7:443 -i --tun-type gre --tun-csum
-a -t 192.168.1.1:443 -r [fd00:1::9]:443 -i
-A -t 1.2.3.4:81 -s sh -b flag-3
-A -t 1.2.3.4:82 -s none
-A -t 1.2.3.4:83 -s rr -b flag-1
-A -u 10.0.0.1:53 -s rr -o
-a -u 10.0.0.1:53 -r 127.0.0.1:53 -m
-A -u 10.0.0.1:5060 -s mh -b mh-port --pe sip -p 30
-A -u 10.0.0.2:5060 -s mh -b mh-port,mh-fallback --pe sip -p 30 -o
-A -u 10.0.0.4:5060 -s lc -b flag-1,flag-2,flag-3
-A --sctp-service 10.0.0.1:99 -s mh -b mh-port
-a --sctp-service 10.0.0.1:99 -r 10.1.0.1:99 -m
-A -t [fd00::1]:80 -s rr
-a -t [fd00::1]:80 -r [fd00:1::2]:80 -m
-a -t [fd00::1]:80 -r [fd00:1::1]:80 -m
-a -t [fd00::1]:80 -r 10.1.0.1:80 -i
-A -t [fd00::2]:80 -s rr -p 60 -M 64
-A -t [fd00::3]:0 -s rr -p 60 -M 128
-A -t 10.9.0.2:80 -s rr -p 10 -M 0.0.0.0
-A -t 10.9.0.3:0 -s rr -p 10
-A -f 7 -s rr
-a -f 7 -r 10.9.9.9:0 -m
-a -f 7 -r 10.9.9.9:80 -i --tun-type gue --tun-port 1
-A -f 3000000000 -s rr
-A -f 8 -6 -s wlc -p 100 -M 56
-a -f 8 -6 -r [fd00::9]:0 -g
END)");
  CHECK(std::ranges::count(shell("ipvsadm-save -n"), '\n') == 38);
  check_same();
}

TEST_CASE("kernel: ipvsctl sorts any addresses as ipvsadm does") {
  FreshNetns netns;
  std::mt19937 random(Catch::rngSeed());
  auto table = KernelIpvsTable::open();
  REQUIRE(table);
  const auto any_address = [&] {
    // 1.0.0.0 to 223.255.255.255: real servers are unicast.
    return IpAddress::v4(static_cast<std::uint32_t>(0x01000000U + random() % 0xde000000U))
        .to_string();
  };
  for (int i = 0; i < 60; ++i) {
    const auto service = virtual_service(any_address(), static_cast<std::uint16_t>(random()));
    must(**table, AddService{service});
    if (i % 10 == 0)
      for (int n = 0; n < 20; ++n)
        must(**table, AddServer{service.key, real_server(any_address(), 80)});
  }
  auto local = real_server("127.0.0.1", 80);
  local.method = ForwardMethod::local;
  must(**table, AddService{virtual_service("10.0.0.1", 80)});
  must(**table, AddServer{virtual_service("10.0.0.1", 80).key, local});
  check_same();
}

TEST_CASE("kernel: ipvsctl without the privilege ends with status 1 and says what is missing") {
  FreshNetns netns;
  const auto text = shell("setpriv --bounding-set -net_admin --inh-caps -net_admin " +
                          ipvsctl_path() + " list -o save 2>&1 || echo status $?");
  CHECK(text.find("needs CAP_NET_ADMIN") != std::string::npos);
  CHECK(text.find("status 1\n") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::test

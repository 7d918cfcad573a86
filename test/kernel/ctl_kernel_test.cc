#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/unique_fd.h"
#include "test/contract/ipvs_contract.h"
#include "test/kernel/ctl_compare.h"
#include "test/kernel/ctl_states.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

const std::string kAllKinds = R"(-A -t 10.0.0.1:80 -s rr
-a -t 10.0.0.1:80 -r 10.1.0.9:8080 -m -w 1
-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -m -w 0
-a -t 10.0.0.1:80 -r 192.168.0.2:80 -m -w 3 -x 100 -y 50
-A -t 192.168.1.1:80 -s wrr -p 600
-a -t 192.168.1.1:80 -r 10.1.0.2:80 -g -w 65535
-A -t 192.168.1.1:443 -s sh -b sh-port,sh-fallback -p 300 -M 255.255.255.0
-a -t 192.168.1.1:443 -r 10.1.0.2:443 -i
-a -t 192.168.1.1:443 -r 10.1.0.3:443 -i --tun-type gue --tun-port 6080
-a -t 192.168.1.1:443 -r 10.1.0.4:443 -i --tun-type gue --tun-port 65535 --tun-csum
-a -t 192.168.1.1:443 -r 10.1.0.5:443 -i --tun-type gue --tun-port 6081 --tun-remcsum
-a -t 192.168.1.1:443 -r 10.1.0.6:443 -i --tun-type gre
-a -t 192.168.1.1:443 -r 10.1.0.7:443 -i --tun-type gre --tun-csum
-a -t 192.168.1.1:443 -r [fd00:1::9]:443 -i
-A -t 1.2.3.4:81 -s sh -b flag-3
-A -t 1.2.3.4:82 -s none
-A -t 1.2.3.4:83 -s rr -b flag-1
-A -t 223.192.168.101:65083 -s wlc -p 60 -M 255.0.255.0
-A -u 10.0.0.1:53 -s rr -o
-a -u 10.0.0.1:53 -r 127.0.0.1:53 -m
-A -u 10.0.0.1:5060 -s mh -b mh-port --pe sip -p 30
-A -u 10.0.0.2:5060 -s mh -b mh-port,mh-fallback --pe sip -p 30 -o
-A -u 10.0.0.4:5060 -s lc -b flag-1,flag-2,flag-3
-A --sctp-service 10.0.0.1:99 -s mh -b mh-port
-a --sctp-service 10.0.0.1:99 -r 10.1.0.1:99 -m
-A -t [fd00::1]:80 -s rr
-a -t [fd00::1]:80 -r [fd00:1:2:3:4:5:6:7777]:8080 -m
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
)";

void check_table() {
  for (const auto& options : table_options()) check_same(options);
}

TEST_CASE("kernel: ipvsctl prints what ipvsadm prints of nothing and of every kind of entry") {
  FreshNetns netns;
  check_table();
  restore_table(kAllKinds);
  CHECK(std::ranges::count(shell("ipvsadm-save -n"), '\n') == std::ranges::count(kAllKinds, '\n'));
  check_table();
  CHECK(ctl({"list", "-o", "save"}).out == shell("ipvsadm-save -n"));
}

TEST_CASE("kernel: ipvsctl prints what ipvsadm prints of the states that kube-proxy left") {
  const std::string configuration = GENERATE("clustercidr", "masqall-mh", "nolocaldetect");
  FreshNetns netns;
  restore_table(shell("cat " + data_word("reference/shop/" + configuration + "/kernel/ipvs.txt")));
  CHECK(std::ranges::count(shell("ipvsadm-save -n"), '\n') == 46);
  check_table();
}

TEST_CASE("kernel: ipvsctl finds the names that ipvsadm finds") {
  FreshNetns netns;
  restore_table(kAllKinds);
  // Nothing can be asked from here: names are those of files.
  check_same({"-L", "list --resolve --ipvsadm"});
  check_same({"-L --stats", "list --resolve --ipvsadm --stats"});
  CHECK(ctl({"list", "--resolve", "--ipvsadm"}).out.find("192.168.1.1:https") != std::string::npos);
  CHECK(ctl({"list", "--resolve", "--ipvsadm"}).out.find("localhost:domain") != std::string::npos);
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
  check_table();
}

// The kernel sums counters up every two seconds.
void wait_for_counters() {
  const auto counted = [] {
    return shell(
        "ipvsadm -Ln --stats --exact | awk 'NR > 3 && $3 > 0 { n++ } END { print n + 0 }'");
  };
  for (int i = 0; i < 100 && counted() == "0\n"; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  REQUIRE(counted() != "0\n");
}

TEST_CASE("kernel: ipvsctl prints what ipvsadm prints of traffic") {
  const CtlWorld world;
  std::mt19937 random(Catch::rngSeed());
  std::string lines;
  for (int host = 1; host <= 6; ++host)
    for (int port = 5300; port < 5304; ++port)
      for (const auto* protocol : {"-t", "-u"}) {
        const auto service = " " + std::string(protocol) + " 10.0.0." + std::to_string(host) + ":" +
                             std::to_string(port);
        lines += "-A" + service + " -s wrr" + (port == 5303 ? " -p 100\n" : "\n");
        lines += "-a" + service + " -r 10.7.7.1:80 -m\n-a" + service + " -r 10.7.7.2:81 -m\n";
        lines += "-a" + service + " -r 10.99.9.9:81 -m\n";
      }
  restore_table(lines);
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) send_traffic(random);
  constexpr int kDatagrams = 2000;
  send_much("10.0.0.1", 5300, kDatagrams);
  wait_for_counters();
  check_table();
  for (const auto& options : connection_options()) check_same(options);
  const auto stats = check_same({"-Ln --stats", "list -n --stats"});
  CHECK(std::ranges::count(stats, '\n') == 3 + 48 * 4);
  // Bytes of above a hundred million.
  CHECK(stats.find("K ") != std::string::npos);
  const auto connections = check_same({"-Lnc", "list -nc"});
  CHECK(std::ranges::count(connections, '\n') > 50);

  // What a filter leaves are lines of the whole.
  const auto some = ctl({"list", "-nc", "--vip", "10.0.0.1", "--protocol", "udp"}).out;
  CHECK(some.find("UDP") != std::string::npos);
  CHECK(some.find("10.0.0.2:") == std::string::npos);
  CHECK(some.find("TCP") == std::string::npos);
}

TEST_CASE("kernel: ipvsctl tells timeouts and sync daemons as ipvsadm does") {
  const CtlWorld world;
  shell("ipvsadm --set 901 121 301");
  CHECK(check_same({"-L --timeout", "list --timeout"}) ==
        "Timeout (tcp tcpfin udp): 901 121 301\n");
  CHECK(check_same({"-L --daemon", "list --daemon"}).empty());
  shell("ipvsadm --start-daemon master --mcast-interface d0 --syncid 7");
  shell(
      "ipvsadm --start-daemon backup --mcast-interface d0 --mcast-group ff05::81 --mcast-port 9 "
      "--mcast-ttl 3 --sync-maxlen 1000");
  const auto daemons = check_same({"-L --daemon", "list --daemon"});
  CHECK(std::ranges::count(daemons, '\n') == 2);
  shell("ipvsadm --stop-daemon master; ipvsadm --stop-daemon backup");
}

TEST_CASE("kernel: ipvsctl lists less on demand") {
  FreshNetns netns;
  restore_table(kAllKinds);
  const auto entries = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"list", "-o", "save"});
    const auto answer = ctl(words);
    CHECK(answer.status == 0);
    return answer.out;
  };
  CHECK(entries({"--draining"}) ==
        "-A -t 10.0.0.1:80 -s rr\n"
        "-a -t 10.0.0.1:80 -r 10.1.0.2:8080 -m -w 0\n");
  CHECK(entries({"--backend", "10.1.0.2:443"}) ==
        "-A -t 192.168.1.1:443 -s sh -p 300 -M 255.255.255.0 -b sh-fallback,sh-port\n"
        "-a -t 192.168.1.1:443 -r 10.1.0.2:443 -i -w 1 --tun-type ipip\n");
  CHECK(entries({"--vip", "fd00::/16", "--empty"}) ==
        "-A -t [fd00::2]:80 -s rr -p 60 -M 64\n"
        "-A -t [fd00::3]:0 -s rr -p 60\n");
  CHECK(entries({"--protocol", "sctp"}) ==
        "-A --sctp-service 10.0.0.1:99 -s mh -b mh-port\n"
        "-a --sctp-service 10.0.0.1:99 -r 10.1.0.1:99 -m -w 1\n");
}

TEST_CASE("kernel: ipvsctl reads while a table is large, and stops when told to") {
  FreshNetns netns;
  auto table = KernelIpvsTable::open();
  REQUIRE(table);
  std::vector<IpvsOp> ops;
  constexpr std::uint16_t kServices = 600;
  for (std::uint16_t port = 1; port <= kServices; ++port) {
    const auto service = virtual_service("10.0.0.1", port);
    ops.emplace_back(AddService{service});
    ops.emplace_back(AddServer{service.key, real_server("10.1.0.2", port)});
  }
  for (const auto& outcome : (*table)->apply(ops)) REQUIRE(outcome);
  auto reader = KernelIpvsReader::open();
  REQUIRE(reader);
  int seen = 0;
  const auto count = [&](const ServiceReading&) -> Status {
    ++seen;
    return {};
  };
  const auto stop = [&](const ServiceReading&) -> Status {
    ++seen;
    return Error{ErrorKind::io, 0, "enough"};
  };
  const auto stopped = (*reader)->services(stop);
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().where == "enough");
  CHECK(seen == 1);
  // The rest of that listing is not in the way of the next.
  seen = 0;
  REQUIRE((*reader)->services(count));
  CHECK(seen == kServices);
  CHECK((*reader)->servers(VirtualServiceKey{.port = 1},
                           [](const ServerReading&) { return Status{}; }));
}

TEST_CASE("kernel: ipvsctl as a program: quiet when cut, clear when it cannot") {
  FreshNetns netns;
  restore_table(kAllKinds);
  CHECK(shell(ipvsctl_word() + " list --ipvsadm") == shell("ipvsadm -Ln"));
  // A pipe that nobody reads: killed by SIGPIPE, or told by EPIPE where that is ignored.
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  UniqueFd(ends[0]).reset();
  const UniqueFd writer(ends[1]);
  const auto to_nobody = "\"$0\" list -n 2>&1 >&" + std::to_string(writer.get());
  CHECK(shell("bash -c '" + to_nobody + "; echo $?' " + ipvsctl_word()) == "141\n");
  CHECK(shell("bash -c 'trap \"\" PIPE; " + to_nobody + "; echo $?' " + ipvsctl_word()) == "141\n");
  const auto full = shell(ipvsctl_word() + " list -n 2>&1 >/dev/full || echo status $?");
  CHECK(full.find("No space left on device") != std::string::npos);
  CHECK(full.find("status 1\n") != std::string::npos);
  const auto wrong = shell(ipvsctl_word() + " list --vip web 2>&1 || echo status $?");
  CHECK(wrong.find("\"web\" is no address") != std::string::npos);
  CHECK(wrong.find("status 2\n") != std::string::npos);
}

TEST_CASE("kernel: ipvsctl without the privilege ends with status 1 and says what is missing") {
  FreshNetns netns;
  const auto text = shell("setpriv --bounding-set -net_admin --inh-caps -net_admin " +
                          ipvsctl_word() + " list -o save 2>&1 || echo status $?");
  CHECK(text.find("needs CAP_NET_ADMIN") != std::string::npos);
  CHECK(text.find("status 1\n") != std::string::npos);
}

TEST_CASE("kernel: ipvsctl names the module that is not loaded", "[.no-modules]") {
  const std::string subject = GENERATE("", "--connections", "--timeout", "--daemon");
  const auto text = shell(ipvsctl_word() + " list " + subject + " 2>&1 || echo status $?");
  CHECK(text.find("load module ip_vs (modprobe ip_vs)") != std::string::npos);
  CHECK(text.find("status 1\n") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::test

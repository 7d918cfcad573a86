#include <random>

#include <catch2/catch.hpp>

#include "test/kernel/ctl_states.h"
#include "test/kernel/netns.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

std::string view(const std::string& words) {
  return shell(ipvsctl_word() + " " + words + " -n 2>&1 || echo status $?");
}

TEST_CASE("kernel: ipvsctl connections has those that ipvsadm has") {
  const CtlWorld world;
  restore_table(
      "-A -u 10.0.0.1:5300 -s rr\n-a -u 10.0.0.1:5300 -r 10.7.7.1:5300 -m\n"
      "-A -t [fd00::1]:5301 -s rr\n-a -t [fd00::1]:5301 -r [fd00:7::2]:80 -m\n");
  CHECK(view("connections").find('\n') == view("connections").size() - 1);
  std::mt19937 random(Catch::rngSeed());
  for (int round = 0; round < 20; ++round) send_traffic(random);
  const std::string ends = " | awk 'NR > 1 { print $1, $3, $4, $5, $6 }' | sort";
  const auto expected = shell("ipvsadm -Lnc | tail -n +2" + ends);
  CHECK(expected.find("UDP") != std::string::npos);
  CHECK(view("connections" + std::string(" -n") + ends + " #") == expected);
  CHECK(view("connections --sort-by expires --protocol udp -n" + ends + " #") ==
        shell("ipvsadm -Lnc | tail -n +2 | awk 'NR == 1 || /UDP/'" + ends));
  const auto counted = view(
      "connections -o json | python3 -c 'import json, sys; "
      "print(len(json.load(sys.stdin)[\"connections\"]))' #");
  CHECK(counted == shell("ipvsadm -Lnc | tail -n +3 | wc -l"));
}

TEST_CASE("kernel: ipvsctl addresses says what is bound, and for what") {
  FreshNetns netns;
  netns.netns().ip(
      "link add kube-ipvs0 type dummy\nlink add d0 type dummy\n"
      "addr add 10.96.0.10/32 dev kube-ipvs0\naddr add 10.96.0.99/32 dev kube-ipvs0\n"
      "addr add fd00::10/128 dev kube-ipvs0 nodad\naddr add 192.0.2.1/24 dev d0\n");
  restore_table(
      "-A -t 10.96.0.10:80 -s rr\n-A -t 10.96.0.11:80 -s rr\n-A -t 192.0.2.1:30080 -s rr\n"
      "-A -t [fd00::10]:80 -s rr\n");
  CHECK(view("addresses") ==
        "Address         Family Bound to   Services\n"
        "10.96.0.10      IPv4   kube-ipvs0 -\n"
        "10.96.0.11      IPv4   -          -: bound nowhere\n"
        "10.96.0.99      IPv4   kube-ipvs0 -: no virtual service has it\n"
        "fd00::10        IPv6   kube-ipvs0 -\n");
  // Without the daemon: once that names are not known, and the same.
  const auto told = shell(ipvsctl_word() + " addresses --control-socket /nowhere 2>&1");
  CHECK(told.find("names of the cluster are not known") != std::string::npos);
  CHECK(told.find("\n10.96.0.10      IPv4   kube-ipvs0 -\n") != std::string::npos);
}

TEST_CASE("kernel: ipvsctl addresses knows local routes of ours from those of others") {
  FreshNetns netns;
  netns.netns().ip(
      "link set lo up\nlink add kube-ipvs0 type dummy\naddr add 10.96.0.12/32 dev kube-ipvs0\n"
      "route add local 10.96.0.10 dev lo table local proto 107 metric 107\n"
      "route add local 10.96.0.12 dev lo table local proto 107 metric 107\n"
      "route add local 10.96.0.99 dev lo table local proto 107 metric 107\n"
      "route add local fd00::10 dev lo table local proto 107 metric 107\n"
      "route add local 10.96.0.11 dev lo table local proto static\n");
  restore_table(
      "-A -t 10.96.0.10:80 -s rr\n-A -t 10.96.0.11:80 -s rr\n-A -t 10.96.0.12:80 -s rr\n"
      "-A -t [fd00::10]:80 -s rr\n");
  CHECK(view("addresses") ==
        "Address         Family Bound to    Services\n"
        "10.96.0.10      IPv4   table local -\n"
        "10.96.0.11      IPv4   -           -: bound nowhere\n"
        "10.96.0.12      IPv4   kube-ipvs0  -\n"
        "10.96.0.12      IPv4   table local -\n"
        "10.96.0.99      IPv4   table local -: no virtual service has it\n"
        "fd00::10        IPv6   table local -\n");
}

}  // namespace
}  // namespace ipvsproxier::test

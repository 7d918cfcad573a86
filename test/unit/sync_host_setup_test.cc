#include "proxier/sync/host_setup.h"

#include <catch2/catch.hpp>

#include "test/fakes/fake_ipvs_table.h"
#include "test/support/fake_host.h"

namespace ipvsproxier::sync {
namespace {

class Host : public test::FakeHost {
 public:
  HostReport prepare(const HostSettings& settings, HostPass pass = HostPass::write) {
    return prepare_host(setup(settings), ipvs, pass);
  }

  test::FakeIpvsTable ipvs;
};

TEST_CASE("sysctls are written where they differ, and only then") {
  Host host;
  const auto first = host.prepare({});
  CHECK(first.failures.empty());
  CHECK(first.warnings.empty());
  CHECK(first.written.size() == 8);
  CHECK(host.get("sys/net/ipv4/vs/conntrack") == "1");
  CHECK(host.get("sys/net/netfilter/nf_conntrack_max") == "131072");
  CHECK(host.get("sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait") == "3600");
  CHECK(host.get("module/nf_conntrack/parameters/hashsize") == "32768");
  CHECK(host.prepare({}).written.size() == 0);
}

TEST_CASE(
    "a conntrack limit that is larger than what is asked for stays, a smaller one is raised") {
  constexpr auto kMax = "sys/net/netfilter/nf_conntrack_max";
  Host host;
  const auto larger = GENERATE("131073", "2000000", "4294967296");
  host.put(kMax, larger);
  const auto begun = host.prepare({});
  CHECK(begun.written.size() == 7);
  CHECK(begun.warnings.empty());
  CHECK(host.get(kMax) == larger);
  CHECK(host.prepare({}, HostPass::dry_run).written.empty());
  CHECK(host.prepare({}).written.empty());
  // What somebody lowered does not stay, nor what is no limit.
  host.put(kMax, "99999");
  host.put("sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait", "7200");
  CHECK(host.prepare({}).written ==
        std::vector<std::string>{
            "sysctl net/netfilter/nf_conntrack_max from 99999 to 131072",
            "sysctl net/netfilter/nf_conntrack_tcp_timeout_close_wait from 7200 to 3600"});
  CHECK(host.get(kMax) == "131072");
  CHECK(host.get("sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait") == "3600");
}

TEST_CASE("a hash that is large enough is left alone") {
  Host host;
  constexpr auto kHash = "module/nf_conntrack/parameters/hashsize";
  host.put(kHash, "65536");
  host.prepare({});
  CHECK(host.get(kHash) == "65536");
  host.put(kHash, "4096");
  CHECK(host.prepare({}).written ==
        std::vector<std::string>{
            "module parameter nf_conntrack/parameters/hashsize from 4096 to 32768"});
}

// kind, and any network namespace other than the host's first.
TEST_CASE("limits of conntrack that belong to another network namespace are one note") {
  Host host;
  constexpr auto kMax = "sys/net/netfilter/nf_conntrack_max";
  host.put(kMax, "65536");
  host.forbid_writing(kMax);
  for (const auto pass : {HostPass::write, HostPass::dry_run}) {
    const auto report = host.prepare({}, pass);
    CHECK(report.warnings.empty());
    CHECK(report.failures.empty());
    CHECK(report.notes ==
          std::vector<std::string>{"sysctl net/netfilter/nf_conntrack_max stays 65536, and not "
                                   "131072: it belongs to the first network namespace of the "
                                   "host"});
  }
  CHECK(host.get(kMax) == "65536");
  CHECK(host.get("module/nf_conntrack/parameters/hashsize") == "16384");
}

TEST_CASE("a needed sysctl that is not there is a failure, a conntrack one a warning") {
  Host host;
  host.remove("sys/net/ipv4/vs/conntrack");
  host.remove("sys/net/netfilter/nf_conntrack_max");
  const auto report = host.prepare({});
  REQUIRE(report.failures.size() == 1);
  CHECK(report.failures[0].what == "set sysctl net/ipv4/vs/conntrack to 1");
  REQUIRE(report.warnings.size() == 1);
  CHECK(report.warnings[0].what == "set sysctl net/netfilter/nf_conntrack_max to 131072");
  CHECK(host.get("sys/net/ipv4/ip_forward") == "1");
}

TEST_CASE("without IPVS its sysctls are not asked for; that is said elsewhere") {
  Host host;
  host.remove("sys/net/ipv4/vs");
  host.ipvs.faults.fail("read IPVS timeouts", {netlink::ErrorKind::missing, 0, "module ip_vs"});
  const auto report = host.prepare({});
  CHECK(report.failures.empty());
  CHECK(host.get("sys/net/ipv4/ip_forward") == "1");
}

TEST_CASE("IPVS timeouts are written where they are asked for and differ") {
  Host host;
  HostSettings settings;
  CHECK(host.prepare(settings).written.size() == 8);
  CHECK(host.ipvs.writes() == 0);
  settings.timeouts = {.tcp = 600, .tcp_fin = 0, .udp = 120};
  CHECK(host.prepare(settings).written.size() == 1);
  CHECK(*host.ipvs.timeouts() == netlink::IpvsTimeouts{.tcp = 600, .tcp_fin = 120, .udp = 120});
  CHECK(host.prepare(settings).written.size() == 0);
  CHECK(host.ipvs.writes() == 1);
}

}  // namespace
}  // namespace ipvsproxier::sync

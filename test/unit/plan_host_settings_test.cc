// kube-proxy's sysctls (docs/kube-proxy.md, section 6).

#include "proxier/plan/host_settings.h"

#include <algorithm>

#include <catch2/catch.hpp>

namespace ipvsproxier::plan {
namespace {

std::vector<std::string> keys(const std::vector<Sysctl>& rows) {
  std::vector<std::string> result;
  for (const auto& row : rows) result.push_back(row.key + "=" + row.value);
  return result;
}

TEST_CASE("IPVS sysctls follow the kernel's version") {
  const std::vector<std::string> always = {
      "net/ipv4/vs/conntrack=1", "net/ipv4/vs/expire_nodest_conn=1",
      "net/ipv4/vs/expire_quiescent_template=1", "net/ipv4/ip_forward=1"};
  auto with_reuse = always;
  with_reuse.insert(with_reuse.begin() + 1, "net/ipv4/vs/conn_reuse_mode=0");
  const auto [release, reuse] = GENERATE(table<std::string, bool>({
      {"3.10.0-1160.el7", false},
      {"4.0.9", false},
      {"4.1.0", true},
      {"4.19.0-26-amd64", true},
      {"5.8.18", true},
      {"5.9.0", false},
      {"6.1.0-18-amd64", false},
      {"10.0", false},
  }));
  CHECK(keys(ipvs_sysctls({}, release)) == (reuse ? with_reuse : always));
}

TEST_CASE("strictARP adds the two ARP sysctls") {
  const auto rows = keys(ipvs_sysctls({.strict_arp = true}, "6.1.0"));
  CHECK(rows.size() == 6);
  CHECK(rows.at(4) == "net/ipv4/conf/all/arp_ignore=1");
  CHECK(rows.at(5) == "net/ipv4/conf/all/arp_announce=2");
}

TEST_CASE("IPv6 is forwarded where that is asked for", "[item-21]") {
  const auto rows = ipvs_sysctls({.ipv6_forwarding = true}, "6.1.0");
  CHECK(keys(rows).back() == "net/ipv6/conf/all/forwarding=1");
  CHECK(rows.back().severity == api::Severity::error);
}

TEST_CASE("estimators are stopped on kernels that walk all in one timer") {
  const auto stopped = [](const std::string& release) {
    return keys(ipvs_sysctls({.estimators = false}, release)).back() ==
           "net/ipv4/vs/run_estimation=0";
  };
  CHECK(stopped("6.1.0-18-amd64"));
  CHECK(stopped("5.17.1"));
  CHECK_FALSE(stopped("6.2.0"));
  // Where it is too old to have the key, that is told.
  CHECK(ipvs_sysctls({.estimators = false}, "5.10.0").back().severity == api::Severity::warning);
}

TEST_CASE("nf_conntrack_max scales with the CPUs") {
  const auto max = [](std::uint32_t per_core, std::uint32_t min, unsigned cpus) {
    return conntrack_max({.max_per_core = per_core, .min = min}, cpus);
  };
  CHECK(max(32768, 131072, 1) == 131072);
  CHECK(max(32768, 131072, 8) == 262144);
  CHECK(max(32768, 131072, 64) == 1048576);
  CHECK(max(32768, 2000000, 64) == 1048576);
  CHECK(max(32768, 2000000, 2) == 2000000);
  CHECK(max(0, 131072, 8) == 0);
}

TEST_CASE("a limit is right when it is larger, everything else when it is equal") {
  const Sysctl limit{.key = "k", .value = "131072", .may_grow = true};
  CHECK(is_right(limit, "131072"));
  CHECK(is_right(limit, "131073"));
  CHECK(is_right(limit, "18446744073709551615"));
  CHECK_FALSE(is_right(limit, "131071"));
  CHECK_FALSE(is_right(limit, ""));
  const Sysctl other{.key = "k", .value = "1"};
  CHECK(is_right(other, "1"));
  CHECK_FALSE(is_right(other, "2"));
}

TEST_CASE("conntrack sysctls that are 0 are left alone; none of them is fatal") {
  const ConntrackSettings none{
      .max_per_core = 0, .tcp_established_timeout = 0, .tcp_close_wait_timeout = 0};
  CHECK(conntrack_sysctls(none, 4).empty());
  const ConntrackSettings all{.udp_timeout = 30, .udp_stream_timeout = 60, .tcp_be_liberal = true};
  const auto rows = conntrack_sysctls(all, 1);
  CHECK(keys(rows) ==
        std::vector<std::string>{"net/netfilter/nf_conntrack_max=131072",
                                 "net/netfilter/nf_conntrack_tcp_timeout_established=86400",
                                 "net/netfilter/nf_conntrack_tcp_timeout_close_wait=3600",
                                 "net/netfilter/nf_conntrack_tcp_be_liberal=1",
                                 "net/netfilter/nf_conntrack_udp_timeout=30",
                                 "net/netfilter/nf_conntrack_udp_timeout_stream=60"});
  CHECK(std::all_of(rows.begin(), rows.end(),
                    [](const Sysctl& row) { return row.severity == api::Severity::warning; }));
}

}  // namespace
}  // namespace ipvsproxier::plan

// detectLocalMode NodeCIDR: the daemon waits for its Node's pod CIDRs, and ends when they change.

#include <catch2/catch.hpp>

#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::test {
namespace {

std::string node_of_cidrs(const std::string& cidrs) {
  return "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {podCIDRs: [" + cidrs + "]}\n";
}

// The sources of which cluster IPs are not masqueraded, in the order of kernel_lines().
std::vector<std::string> local_sources(const std::vector<std::string>& lines) {
  constexpr std::string_view kBegin = "-A KUBE-SERVICES ! -s ";
  std::vector<std::string> sources;
  for (const auto& line : lines)
    if (line.starts_with(kBegin))
      sources.push_back(line.substr(kBegin.size(), line.find(' ', kBegin.size()) - kBegin.size()));
  return sources;
}

TEST_CASE("kernel: NodeCIDR: pod CIDRs are waited for, and others end the daemon", "[addresses]") {
  using Sources = std::vector<std::string>;
  Netns netns;
  Manifests manifests;
  manifests.configure("detectLocalMode: NodeCIDR\nipvs: {syncPeriod: 1h}\n");
  manifests.remove("nodes");
  manifests.put({.cluster_ips = {"10.96.0.9", "fd00:96::9"}});
  Daemon daemon(netns, manifests.flags());
  daemon.start();
  REQUIRE(
      daemon.logs("spec.podCIDRs: missing, but detectLocalMode is NodeCIDR; nothing is "
                  "programmed until it is there"));
  manifests.write("n1", node_of_cidrs(""));
  const auto links = netns.inside([] { return shell("ipvsadm -Sn; ip -o link"); });
  CHECK(links.starts_with("1: lo"));
  CHECK(links.find("kube-ipvs0") == std::string::npos);

  manifests.write("n1", node_of_cidrs("10.244.0.0/24, \"fd00:244::/64\""));
  REQUIRE(daemon.logs("synced: "));
  CHECK(local_sources(kernel_lines(netns)) == Sources{"10.244.0.0/24", "fd00:244::/64"});

  // A Node that loses them, and gets them back, is no reason to end.
  manifests.write("n1", node_of_cidrs(""));
  CHECK(daemon.logs("the Node stays as it was last seen"));
  manifests.write("n1", node_of_cidrs("10.244.0.0/24, \"fd00:244::/64\""));
  daemon.mark();
  manifests.put({.name = "later", .cluster_ips = {"10.96.0.10"}});
  REQUIRE(daemon.logs("synced: "));

  manifests.write("n1", node_of_cidrs("10.244.0.0/24, \"fd00:244:7::/64\""));
  CHECK(daemon.wait_for_end() == 1);
  CHECK(
      daemon.logs("spec.podCIDRs changed from 10.244.0.0/24, fd00:244::/64 to 10.244.0.0/24, "
                  "fd00:244:7::/64"));
  CHECK(local_sources(kernel_lines(netns)) == Sources{"10.244.0.0/24", "fd00:244::/64"});
  daemon.mark();
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  CHECK(local_sources(kernel_lines(netns)) == Sources{"10.244.0.0/24", "fd00:244:7::/64"});
}

}  // namespace
}  // namespace ipvsproxier::test

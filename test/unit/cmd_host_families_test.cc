#include "cmd/host_families.h"

#include <map>

#include <catch2/catch.hpp>

#include "test/support/files.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::cmd {
namespace {

using netlink::ErrorKind;
using netlink::Family;

const std::vector<Family> kBothFamilies = {Family::ipv4, Family::ipv6};

// A /proc of a host with IPv6, and its packet filters.
struct ProcOfHost {
  ProcOfHost() {
    put("net/if_inet6", "");
    put("sys/net/ipv6/conf/all/disable_ipv6", "0\n");
  }
  void put(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((proc.path() / file).parent_path());
    test::write_file((proc.path() / file).string(), text);
  }
  HostFamilies supported() {
    asked.clear();
    return supported_families(
        [this](Family family) {
          asked.push_back(family);
          return answers[family];
        },
        proc.path());
  }

  test::TempDir proc;
  std::map<Family, netlink::Status> answers;  // "usable" where there is none
  std::vector<Family> asked;
};

netlink::Error lacks(const std::string& what) {
  return {ErrorKind::missing, 0, what};
}

TEST_CASE("a host with IPv6 is one of two families") {
  ProcOfHost host;
  CHECK(host.supported().families == kBothFamilies);
  CHECK(host.supported().left_out.empty());
  CHECK(host.asked == kBothFamilies);
}

TEST_CASE("a kernel without IPv6, or one that has it disabled, proxies IPv4") {
  ProcOfHost host;
  const bool disabled = GENERATE(false, true);
  if (disabled)
    for (const auto* link : {"all", "default", "eth0"})
      host.put(std::string("sys/net/ipv6/conf/") + link + "/disable_ipv6", "1\n");
  else
    std::filesystem::remove(host.proc.path() / "net/if_inet6");
  const auto supported = host.supported();
  CHECK(supported.families == std::vector{Family::ipv4});
  CHECK(supported.left_out == (disabled ? "IPv6 is left out: it is disabled on all links "
                                          "(net/ipv6/conf/*/disable_ipv6)"
                                        : "IPv6 is left out: this kernel has no IPv6"));
}

TEST_CASE("IPv6 that is off by default and on for one link is on") {
  ProcOfHost host;
  for (const auto* link : {"all", "default", "eth0"})
    host.put(std::string("sys/net/ipv6/conf/") + link + "/disable_ipv6", "1\n");
  host.put("sys/net/ipv6/conf/lo/disable_ipv6", "0\n");
  CHECK(host.supported().families == std::vector{Family::ipv4});
  host.put("sys/net/ipv6/conf/eth1/disable_ipv6", "0\n");
  CHECK(host.supported().families == kBothFamilies);
}

TEST_CASE("a family whose packet filter the kernel lacks is left out, if the other's is there") {
  ProcOfHost host;
  const auto family = GENERATE(Family::ipv4, Family::ipv6);
  const auto other = family == Family::ipv4 ? Family::ipv6 : Family::ipv4;
  host.answers[family] = lacks("no such module");
  auto supported = host.supported();
  CHECK(supported.families == std::vector{other});
  CHECK(supported.left_out ==
        std::string(to_string(family)) + " is left out: no such module (missing)");
  // Then the lack is told where each is used.
  host.answers[other] = lacks("no such module");
  supported = host.supported();
  CHECK(supported.families == kBothFamilies);
  CHECK(supported.left_out.empty());
}

TEST_CASE("a packet filter that cannot be read now, or not by this process, counts as there") {
  ProcOfHost host;
  host.answers[GENERATE(Family::ipv4, Family::ipv6)] =
      netlink::Error{GENERATE(ErrorKind::denied, ErrorKind::io, ErrorKind::busy), 0, "iptables"};
  CHECK(host.supported().families == kBothFamilies);
}

}  // namespace
}  // namespace ipvsproxier::cmd

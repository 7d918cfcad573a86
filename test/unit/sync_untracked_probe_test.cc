// Rules that keep ports from connection tracking: looked for when the kernel is read, and when
// addresses of other links come and go.

#include "proxier/sync/untracked_probe.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using test::FakeDaemon;
using test::ip;

struct RawRules {
  std::vector<ipset::UntrackedPorts> ports;
  bool unjudged = false;
  bool unreadable = false;
  std::vector<std::set<netlink::IpAddress>> looks;

  FindUntrackedPorts find() {
    return [this](const auto& addresses,
                  std::chrono::milliseconds) -> netlink::Result<ipset::UntrackedLook> {
      looks.push_back(addresses);
      if (unreadable) return netlink::Error{netlink::ErrorKind::busy, 0, "busy"};
      ipset::UntrackedLook look;
      if (unjudged)
        look.unjudged["raw"] = "too large";
      else
        for (const auto& one : ports)
          if (addresses.contains(one.address)) look.ports.push_back(one);
      return look;
    };
  }
};

bool serves_web(const FakeDaemon& daemon) {
  return std::ranges::any_of(daemon.ipvs.services(),
                             [](const auto& service) { return service.key == test::kWeb; });
}

TEST_CASE("untracked probe: a program comes and goes, and its port with it") {
  RawRules raw{.ports = {{test::kWeb.address, netlink::Protocol::tcp, 80, 80, "raw"}}};
  FakeDaemon daemon({.remove_nft_leftovers = {}, .find_untracked_ports = raw.find()});
  daemon.see(test::web_with({test::e1()}));
  CHECK(serves_web(daemon));

  daemon.links.ensure_dummy("cache0").value();
  daemon.links.add_address({"cache0", test::kWeb.address, 32});
  daemon.see(netlink::LinkEvents{.others_changed = true});
  CHECK_FALSE(serves_web(daemon));
  CHECK(daemon.says("[warning] Service default/web: spec.ports: link cache0 of another program"));
  // Unchanged addresses are not looked at before the next reading.
  const auto looks = raw.looks.size();
  daemon.see(netlink::LinkEvents{.others_changed = true});
  CHECK(raw.looks.size() == looks);
  raw.unjudged = true;
  daemon.wait(std::chrono::seconds(31));
  CHECK(raw.looks.size() > looks);
  CHECK_FALSE(serves_web(daemon));
  raw.unreadable = true;
  daemon.wait(std::chrono::seconds(31));
  CHECK_FALSE(serves_web(daemon));
  // The rules went, the address stays.
  raw = {};
  daemon.wait(std::chrono::seconds(31));
  CHECK(serves_web(daemon));
}

}  // namespace
}  // namespace ipvsproxier::sync

#include "netlink/links/link_monitor.h"

#include <poll.h>

#include <filesystem>

#include <catch2/catch.hpp>

#include "netlink/sysctl.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"
#include "test/support/files.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

constexpr const char* kOurLinks = "kube-ipvs";

std::unique_ptr<LinkMonitor> watch(bool local_routes = false) {
  auto monitor = LinkMonitor::open(kOurLinks, local_routes);
  if (!monitor) FAIL(to_string(monitor.error()));
  return std::move(*monitor);
}

bool readable(const LinkMonitor& monitor) {
  pollfd poller{monitor.fd(), POLLIN, 0};
  return ::poll(&poller, 1, 0) == 1;
}

// Notifications are sent before the change that they tell of is acknowledged.
LinkEvents after(LinkMonitor& monitor, const Netns& netns, const std::string& lines) {
  netns.ip(lines);
  CHECK(readable(monitor));
  auto events = monitor.take();
  CHECK_FALSE(readable(monitor));
  CHECK(monitor.take().empty());
  return events;
}

LinkEvents lost(const std::set<std::string>& ips) {
  LinkEvents events;
  for (const auto& ip : ips) events.lost.insert(*IpAddress::parse(ip));
  return events;
}

TEST_CASE("kernel: what happens to our link and its addresses is seen") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  const auto monitor = watch();
  CHECK_FALSE(readable(*monitor));
  CHECK(monitor->take().empty());

  CHECK(after(*monitor, netns,
              "link add kube-ipvs0 type dummy\n"
              "addr add 10.96.0.1/32 dev kube-ipvs0\naddr add fd00::1/128 dev kube-ipvs0\n"
              "addr add 10.96.0.2/32 dev kube-ipvs0\naddr add fd00::2/128 dev kube-ipvs0\n")
            .empty());
  CHECK(after(*monitor, netns, "addr del 10.96.0.1/32 dev kube-ipvs0\n") == lost({"10.96.0.1"}));
  CHECK(after(*monitor, netns, "addr del fd00::1/128 dev kube-ipvs0\n") == lost({"fd00::1"}));
  CHECK(after(*monitor, netns,
              "addr del 10.96.0.2/32 dev kube-ipvs0\naddr add 10.96.0.2/32 dev kube-ipvs0\n")
            .empty());
  // addrconf.c: IPv6 addresses go when the link goes DOWN, the link-local one of UP as well.
  CHECK(after(*monitor, netns, "link set kube-ipvs0 up\nlink set kube-ipvs0 down\n") ==
        lost({"fd00::2"}));
  netns.ip("addr add fd00::2/128 dev kube-ipvs0\n");
  CHECK(monitor->take().empty());
  auto gone = lost({"10.96.0.2", "fd00::2"});
  gone.link_lost = true;
  CHECK(after(*monitor, netns, "link del kube-ipvs0\n") == gone);
}

// For a name that no link has the kernel would start modprobe.
TEST_CASE("kernel: watching asks for no link that is not there") {
  FreshNetns fresh;
  const TempDir dir;
  const auto started = dir.path() / "started";
  const auto script = dir.path() / "modprobe";
  write_file(script, "#!/bin/sh\necho \"$@\" >>" + started.string() + "\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const netlink::Sysctl sysctls;
  const auto before = netlink::Sysctl().read("kernel/modprobe").value();
  REQUIRE(sysctls.ensure("kernel/modprobe", script.string()));
  const auto monitor = watch();
  const bool quiet = !std::filesystem::exists(started);
  // It would have been seen.
  shell("ip link add x0 type nosuchkind 2>/dev/null || true");
  const bool seen = std::filesystem::exists(started);
  REQUIRE(sysctls.ensure("kernel/modprobe", before));
  CHECK(quiet);
  CHECK(seen);
}

TEST_CASE("kernel: a link that was there before, and one that was made anew, are ours") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  netns.ip("link add kube-ipvs0 type dummy\naddr add 10.96.0.1/32 dev kube-ipvs0\n");
  const auto monitor = watch();
  CHECK(after(*monitor, netns, "addr del 10.96.0.1/32 dev kube-ipvs0\n") == lost({"10.96.0.1"}));
  CHECK(after(*monitor, netns, "link del kube-ipvs0\nlink add kube-ipvs0 type dummy\n") ==
        LinkEvents{.link_lost = true});
  CHECK(after(*monitor, netns,
              "addr add 10.96.0.9/32 dev kube-ipvs0\naddr del 10.96.0.9/32 dev kube-ipvs0\n") ==
        lost({"10.96.0.9"}));
}

TEST_CASE("kernel: renames take our link away and bring it back") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  netns.ip("link add kube-ipvs0 type dummy\naddr add 10.96.0.1/32 dev kube-ipvs0\n");
  const auto monitor = watch();
  const LinkEvents away{.link_lost = true, .others_changed = true};
  CHECK(after(*monitor, netns, "link set kube-ipvs0 name other0\n") == away);
  CHECK(after(*monitor, netns, "addr del 10.96.0.1/32 dev other0\n") ==
        LinkEvents{.others_changed = true});
  CHECK(after(*monitor, netns, "link set other0 name kube-ipvs0\n") ==
        LinkEvents{.others_changed = true});
  CHECK(after(*monitor, netns,
              "addr add 10.96.0.1/32 dev kube-ipvs0\naddr del 10.96.0.1/32 dev kube-ipvs0\n") ==
        lost({"10.96.0.1"}));
}

TEST_CASE("kernel: our link in a bridge and out of it is still there") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  netns.ip("link add kube-ipvs0 type dummy\nlink add br0 type bridge\n");
  const auto monitor = watch();
  CHECK(after(*monitor, netns, "link set kube-ipvs0 master br0\nlink set kube-ipvs0 nomaster\n")
            .empty());
  CHECK(after(*monitor, netns,
              "addr add 10.96.0.1/32 dev kube-ipvs0\naddr del 10.96.0.1/32 dev kube-ipvs0\n") ==
        lost({"10.96.0.1"}));
}

TEST_CASE("kernel: addresses of other links come and go, pods' link-local ones do not count") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  netns.ip("link add kube-ipvs0 type dummy\n");
  const auto monitor = watch();
  const LinkEvents changed{.others_changed = true};
  // Like a pod's: up, with link-local addresses on both ends.
  CHECK(after(*monitor, netns,
              "link add left type veth peer name right\nlink set left up\nlink set right up\n")
            .empty());
  CHECK(after(*monitor, netns, "addr add 192.0.2.1/24 dev left\n") == changed);
  // The same again, with another lifetime.
  CHECK(after(*monitor, netns,
              "addr change 192.0.2.1/24 dev left valid_lft 3600 preferred_lft 3600\n")
            .empty());
  CHECK(after(*monitor, netns, "addr add 2001:db8::1/64 dev left nodad\n") == changed);
  CHECK(after(*monitor, netns, "addr del 2001:db8::1/64 dev left\n") == changed);
  CHECK(after(*monitor, netns, "addr add 192.0.2.9/32 dev lo\n") == changed);
  CHECK(
      after(*monitor, netns, "addr add 127.0.0.9/8 dev lo\naddr del 127.0.0.9/8 dev lo\n").empty());
  CHECK(after(*monitor, netns, "link del left\n") == changed);
}

TEST_CASE("kernel: an IPv6 address leaves word even when its link was down") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  netns.ip("link add left type dummy\naddr add 2001:db8::1/64 dev left\n");
  const auto monitor = watch();
  CHECK(after(*monitor, netns, "link del left\n") == LinkEvents{.others_changed = true});
}

TEST_CASE("kernel: lost notifications are an overrun, and our link is found again after it") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  // Without the privilege the buffer is a small one.
  const auto monitor = [] {
    const WithoutNetAdmin unprivileged;
    return watch();
  }();
  std::string lines = "link add kube-ipvs0 type dummy\nlink add left type dummy\n";
  for (int i = 0; i < 1000; ++i) {
    const auto ip = "10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1);
    lines += "addr add " + ip + "/32 dev left\n";
  }
  netns.ip(lines + "link del kube-ipvs0\nlink add kube-ipvs0 type dummy\n");
  CHECK(monitor->take().overrun);
  CHECK(monitor->take().empty());
  CHECK(after(*monitor, netns,
              "addr add 10.96.0.1/32 dev kube-ipvs0\naddr del 10.96.0.1/32 dev kube-ipvs0\n") ==
        lost({"10.96.0.1"}));
}

TEST_CASE("kernel: further links are ours, those that were there before as well") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  netns.ip(
      "link add kube-ipvs0 type dummy\nlink add kube-ipvs7 type dummy\n"
      "addr add 10.96.0.1/32 dev kube-ipvs7\naddr add fd00::1/128 dev kube-ipvs7\n");
  const auto monitor = watch();
  CHECK(after(*monitor, netns, "addr del 10.96.0.1/32 dev kube-ipvs7\n") == lost({"10.96.0.1"}));
  auto gone = lost({"fd00::1"});
  gone.link_lost = true;
  CHECK(after(*monitor, netns, "link del kube-ipvs7\n") == gone);
  CHECK(after(*monitor, netns,
              "link add kube-ipvs1 type dummy\naddr add 10.96.0.2/32 dev kube-ipvs1\n"
              "addr del 10.96.0.2/32 dev kube-ipvs1\n") == lost({"10.96.0.2"}));
}

TEST_CASE("kernel: local routes of ours that are removed are seen where they are asked for") {
  FreshNetns fresh;
  const auto& netns = fresh.netns();
  const auto monitor = watch(true);
  const auto blind = watch();
  const auto change = [&](const std::string& what) {
    return after(*monitor, netns, "route " + what + " dev lo table local proto 107 metric 107\n");
  };
  CHECK(change("add local 10.96.0.1").empty());
  CHECK(change("add local fd00::1").empty());
  CHECK(after(*monitor, netns,
              "route add local 10.96.0.1 dev lo table local proto static\n"
              "route del local 10.96.0.1 dev lo table local proto static\n"
              "route add 10.1.0.0/16 dev lo\nroute del 10.1.0.0/16 dev lo\n")
            .empty());
  CHECK(change("del local 10.96.0.1") == lost({"10.96.0.1"}));
  CHECK(change("del local fd00::1") == lost({"fd00::1"}));
  CHECK_FALSE(readable(*blind));
}

}  // namespace
}  // namespace ipvsproxier::test

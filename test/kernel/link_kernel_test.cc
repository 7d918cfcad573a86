#include "netlink/links/link_kernel.h"

#include <catch2/catch.hpp>

#include "test/contract/link_contract.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

std::unique_ptr<KernelLinkTable> open_links(const NlOptions& options = {}) {
  auto table = KernelLinkTable::open(options);
  if (!table) FAIL(to_string(table.error()));
  return std::move(*table);
}

TEST_CASE("kernel: links keep the contract") {
  FreshNetns netns;
  link_contract(*open_links());
}

TEST_CASE("kernel: the dummy and its addresses look like kube-proxy's") {
  FreshNetns netns;
  const auto table = open_links();
  REQUIRE(table->ensure_dummy(kLink));
  all_succeed(
      table->apply(kLink, std::vector{address_op(true, "10.0.0.1"), address_op(true, "fd00::1")}));
  const auto link = shell("ip -o link show kube-ipvs0");
  CHECK(link.find("<BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN") != std::string::npos);
  CHECK(link.find("qlen") == std::string::npos);
  CHECK(shell("ip -o addr show kube-ipvs0 | sed -e 's/^[0-9]*: //' -e 's/\\\\.*//'") ==
        "kube-ipvs0    inet 10.0.0.1/32 scope global kube-ipvs0\n"
        "kube-ipvs0    inet6 fd00::1/128 scope global \n");
}

// Hardening guides ask for it; IPv6 of the node's other links is set one by one then.
TEST_CASE("kernel: our links have IPv6 although the default of new links is to have none") {
  FreshNetns netns;
  shell("echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6");
  const bool there_before = GENERATE(false, true);
  if (there_before) shell("ip link add kube-ipvs0 type dummy");
  const std::vector ops = {address_op(true, "fd00::1")};
  const auto plain = open_links();
  REQUIRE(plain->ensure_dummy(kLink));
  CHECK_FALSE(plain->apply(kLink, ops).front());
  std::vector<std::string> told;
  const auto table = KernelLinkTable::open({}, [&](const auto& what) { told.push_back(what); });
  REQUIRE(table);
  REQUIRE((*table)->ensure_dummy(kLink));
  CHECK((*table)->apply(kLink, ops).front());
  CHECK(told ==
        std::vector<std::string>{"sysctl net/ipv6/conf/kube-ipvs0/disable_ipv6 from 1 to 0"});
  // Not where all of IPv6 is off.
  shell("echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6");
  REQUIRE((*table)->ensure_dummy(kLink));
  CHECK(shell("cat /proc/sys/net/ipv6/conf/kube-ipvs0/disable_ipv6") == "1\n");
  // One other link that has IPv6 shows that the node uses it.
  shell("ip link add other type dummy && echo 0 >/proc/sys/net/ipv6/conf/other/disable_ipv6");
  REQUIRE((*table)->ensure_dummy(kLink));
  CHECK((*table)->apply(kLink, ops).front());
  CHECK(told.size() == 2);
}

TEST_CASE("kernel: addresses of all links are listed, ours and not a peer's") {
  FreshNetns netns;
  shell("ip link add left type veth peer name right && ip link set left up");
  shell("ip addr add 10.1.1.1 peer 10.1.1.2/32 dev left");
  shell("ip addr add 10.2.2.1/24 dev right");
  shell("ip addr add fd00:2::1/64 dev right nodad");
  const auto table = open_links();
  CHECK(addresses_of(*table, "left") == std::vector<std::string>{"10.1.1.1/32"});
  CHECK(addresses_of(*table, "right") == std::vector<std::string>{"10.2.2.1/24", "fd00:2::1/64"});
}

TEST_CASE("kernel: what is already so is not written again") {
  FreshNetns netns;
  const auto table = open_links();
  REQUIRE(table->ensure_dummy(kLink));
  const auto before = table->counters();
  REQUIRE(table->ensure_dummy(kLink));
  REQUIRE(table->list_addresses());
  CHECK(table->counters().write_requests == before.write_requests);
  CHECK(before.write_requests == 1);
}

TEST_CASE("kernel: a thousand addresses go 256 in a datagram") {
  FreshNetns netns;
  const auto table = open_links();
  REQUIRE(table->ensure_dummy(kLink));
  std::vector<AddressOp> ops;
  for (std::uint32_t i = 0; i < 1024; ++i) ops.push_back({true, IpAddress::v4(0x0a000000U + i)});
  const auto before = table->counters().datagrams;
  all_succeed(table->apply(kLink, ops));
  // One more asks for the link's index.
  CHECK(table->counters().datagrams - before == 5);
  CHECK(addresses_of(*table, kLink).size() == 1024);
}

TEST_CASE("kernel: without the privilege links and addresses are denied") {
  FreshNetns netns;
  const auto table = open_links();
  REQUIRE(table->ensure_dummy(kLink));
  const auto [link, outcomes] = [&] {
    const WithoutNetAdmin unprivileged;
    return std::pair(table->ensure_dummy("other0"),
                     table->apply(kLink, std::vector{address_op(true, "10.0.0.1")}));
  }();
  REQUIRE_FALSE(link);
  CHECK(to_string(link.error()).find("create dummy link other0") == 0);
  CHECK(to_string(link.error()).find("needs CAP_NET_ADMIN") != std::string::npos);
  REQUIRE_FALSE(outcomes.at(0));
  CHECK(outcomes[0].error().kind == ErrorKind::denied);
  CHECK(addresses_of(*table, kLink).empty());
}

TEST_CASE("kernel: local routes of others stay, whatever becomes of ours and of addresses") {
  FreshNetns netns;
  const auto table = open_links();
  REQUIRE(table->ensure_dummy(kLink));
  for (const auto* others : {"ip route add local 10.0.0.1 dev lo table local proto static",
                             "ip route add local 10.0.1.0/24 dev lo table local proto 107",
                             "ip route add local 10.0.0.3 dev lo table 7 proto 107",
                             "ip -6 route add local fd00::1 dev lo table local proto static",
                             "ip -6 route add local fd00:1::/64 dev lo table local proto 107"})
    shell(others);
  const auto all = [] { return shell("ip route show table all; ip -6 route show table all"); };
  const auto before = all();
  CHECK(table->list_local_routes()->empty());
  const std::vector add = {address_op(true, "10.0.0.1"), address_op(true, "fd00::1")};
  const std::vector remove = {address_op(false, "10.0.0.1"), address_op(false, "fd00::1")};
  all_succeed(table->apply_local_routes(add));
  CHECK(table->list_local_routes()->size() == 2);
  const auto with_ours = all();
  CHECK(with_ours.find("local 10.0.0.1 dev lo table local proto 107 scope host metric 107") !=
        std::string::npos);
  CHECK(with_ours.find("local fd00::1 dev lo table local proto 107 metric 107") !=
        std::string::npos);
  // The kernel's own, and all that go with a link's last address.
  all_succeed(table->apply(kLink, add));
  all_succeed(table->apply(kLink, remove));
  CHECK(all() == with_ours);
  REQUIRE(table->remove_dummy(kLink));
  CHECK(all() == with_ours);
  all_succeed(table->apply_local_routes(remove));
  CHECK(all() == before);
}

TEST_CASE("kernel: local routes cost one message each, and a listing names ours alone") {
  FreshNetns netns;
  const auto table = open_links();
  REQUIRE(table->ensure_dummy(kLink));
  std::vector<AddressOp> ops;
  for (std::uint32_t i = 0; i < 1024; ++i) ops.push_back({true, IpAddress::v4(0x0a000000U + i)});
  const auto before = table->counters();
  all_succeed(table->apply_local_routes(ops));
  CHECK(table->counters().requests() - before.requests() == 1024);
  CHECK(table->counters().datagrams - before.datagrams == 4);
  CHECK(table->list_local_routes()->size() == 1024);
  const auto outcomes = [&] {
    const WithoutNetAdmin unprivileged;
    return table->apply_local_routes(std::vector{address_op(true, "10.9.9.9")});
  }();
  REQUIRE_FALSE(outcomes.at(0));
  CHECK(outcomes[0].error().kind == ErrorKind::denied);
  CHECK(to_string(outcomes[0].error()).find("add local route 10.9.9.9/32") == 0);
}

}  // namespace
}  // namespace ipvsproxier::test

#include "netlink/nl_channel.h"

#include <linux/netlink.h>

#include <catch2/catch.hpp>

#include "netlink/ipvs_codec.h"
#include "netlink/ipvs_kernel.h"
#include "netlink/link_codec.h"
#include "netlink/link_kernel.h"
#include "test/kernel/netns.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

TEST_CASE("kernel: a request without an answer is a timeout, and nothing is sent after it") {
  FreshNetns netns;
  auto channel = NlChannel::open(NETLINK_ROUTE, {.timeout = std::chrono::milliseconds(50)});
  REQUIRE(channel);
  std::vector<Bytes> requests(NlChannel::kWindow + 1, encode_new_dummy("dummy0"));
  // A message that says it is longer than its datagram ends the kernel's reading, unanswered.
  requests[0][0] = 0xff;
  requests[0][1] = 0xff;
  const auto outcomes = channel->transact(Operation::link, requests);
  REQUIRE(outcomes.size() == requests.size());
  for (const auto& outcome : outcomes) {
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().kind == ErrorKind::timeout);
  }
  CHECK(channel->counters().datagrams == 1);
  CHECK(channel->counters().write_requests == NlChannel::kWindow);

  const auto after =
      channel->transact(Operation::link, std::vector<Bytes>{encode_new_dummy("dummy1")});
  CHECK(after.at(0));
}

TEST_CASE("kernel: the extended acknowledgement's text is in the error") {
  FreshNetns netns;
  auto channel = NlChannel::open(NETLINK_ROUTE);
  REQUIRE(channel);
  const auto outcomes = channel->transact(
      Operation::link, std::vector<Bytes>{encode_new_dummy("far-too-long-a-name")});
  REQUIRE_FALSE(outcomes.at(0));
  CHECK_FALSE(outcomes[0].error().where.empty());
}

TEST_CASE("kernel: a family that does not exist is missing") {
  FreshNetns netns;
  auto channel = NlChannel::open(NETLINK_GENERIC);
  REQUIRE(channel);
  const auto family = resolve_family(*channel, "nosuch");
  REQUIRE_FALSE(family);
  CHECK(family.error().kind == ErrorKind::missing);
  CHECK(family.error().where.find("nosuch") != std::string::npos);
}

// Run by itself in a guest that can load nothing.
TEST_CASE("without modules: the errors name what is missing", "[.no-modules]") {
  FreshNetns netns;
  const auto ipvs = KernelIpvsTable::open();
  REQUIRE_FALSE(ipvs);
  CHECK(ipvs.error().kind == ErrorKind::missing);
  CHECK(ipvs.error().where.find("modprobe ip_vs") != std::string::npos);
  const auto links = KernelLinkTable::open();
  REQUIRE(links);
  const auto dummy = (*links)->ensure_dummy("kube-ipvs0");
  REQUIRE_FALSE(dummy);
  CHECK(dummy.error().kind == ErrorKind::missing);
  CHECK(dummy.error().where.find("modprobe dummy") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::test

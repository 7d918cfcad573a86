#include "netlink/nl_channel.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "netlink/ipvs/ipvs_codec.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/links/link_codec.h"
#include "netlink/links/link_kernel.h"
#include "netlink/unique_fd.h"
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

// The ports of this thread's namespace that are not the kernel's: the only one.
std::uint32_t port_of_only_socket() {
  std::ifstream sockets("/proc/thread-self/net/netlink");
  std::string line;
  std::getline(sockets, line);  // headings
  std::uint32_t found = 0;
  while (std::getline(sockets, line)) {
    std::istringstream words(line);
    std::string address;
    int protocol = 0;
    std::uint32_t port = 0;
    words >> address >> protocol >> port;
    if (protocol == NETLINK_ROUTE && port != 0) found = port;
  }
  return found;
}

std::uint32_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

TEST_CASE("kernel: answers that another process forges do not count") {
  FreshNetns netns;
  // A channel's sequence numbers begin with the time: they can be guessed. More guesses than the
  // socket holds would be lost answers, so on a busy machine it is opened again.
  auto first = milliseconds_now();
  auto channel = NlChannel::open(NETLINK_ROUTE);
  auto last = milliseconds_now() + 1;
  for (int i = 0; i < 50 && last - first > 50; ++i) {
    channel = malformed("closed");
    first = milliseconds_now();
    channel = NlChannel::open(NETLINK_ROUTE);
    last = milliseconds_now() + 1;
  }
  REQUIRE(channel);
  sockaddr_nl target{};
  target.nl_family = AF_NETLINK;
  target.nl_pid = port_of_only_socket();
  REQUIRE(target.nl_pid != 0);
  const UniqueFd forger(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  REQUIRE(forger.get() >= 0);
  for (auto sequence = first; sequence != last + 1; ++sequence) {
    struct {
      nlmsghdr header;
      nlmsgerr error;
    } answer{};
    answer.header.nlmsg_len = sizeof answer;
    answer.header.nlmsg_type = NLMSG_ERROR;
    answer.header.nlmsg_seq = sequence;
    answer.error.error = -EPERM;
    REQUIRE(sendto(forger.get(), &answer, sizeof answer, 0,
                   reinterpret_cast<const sockaddr*>(&target), sizeof target) == sizeof answer);
  }
  const auto outcomes =
      channel->transact(Operation::link, std::vector<Bytes>{encode_new_dummy("dummy0")});
  CHECK(outcomes.at(0));
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

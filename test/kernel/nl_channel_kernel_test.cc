#include "netlink/nl_channel.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <semaphore>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

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

// A listing of addresses takes several datagrams. Another socket adds and removes one meanwhile.
TEST_CASE("kernel: a listing that a change interrupted is made again, and is whole") {
  constexpr int kAddresses = 2000;
  const auto address = [](int number) {
    return IpAddress::v4(0x0a000001 + static_cast<std::uint32_t>(number));
  };
  FreshNetns netns;
  auto channel = NlChannel::open(NETLINK_ROUTE);
  auto other = NlChannel::open(NETLINK_ROUTE);
  REQUIRE(channel);
  REQUIRE(other);
  REQUIRE(channel->transact(Operation::link, std::vector<Bytes>{encode_new_dummy("dummy0")}).at(0));
  const auto link = channel->query(Operation::link, encode_get_link("dummy0"));
  REQUIRE(link);
  const auto index = decode_link(*link)->index;
  std::vector<Bytes> added;
  for (int i = 0; i < kAddresses; ++i)
    added.push_back(encode_address_op(index, {true, address(i)}));
  for (const auto& outcome : channel->transact(Operation::address, added)) REQUIRE(outcome);

  // One change a listing, at another moment of it each time. More of them could interrupt it as
  // often as it is tried.
  std::counting_semaphore<> begun(0);
  std::counting_semaphore<> changed(0);
  std::jthread changes([&](const std::stop_token& stop) {
    for (unsigned number = 1; !stop.stop_requested();) {
      if (!begun.try_acquire_for(std::chrono::milliseconds(100))) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(number * 137 % 5000));
      const AddressOp change{number % 2 == 1, address(kAddresses)};
      other->transact(Operation::address, std::vector<Bytes>{encode_address_op(index, change)});
      ++number;
      changed.release();
    }
  });
  const auto before = channel->counters().dump_requests;
  unsigned listings = 0;
  const auto interrupted = [&] { return channel->counters().dump_requests - before - listings; };
  for (; listings < 500 && interrupted() < 5; ++listings) {
    std::size_t found = 0;
    begun.release();
    const auto listed = channel->dump(Operation::address, encode_list_addresses(), [&](ByteView) {
      ++found;
      return Status{};
    });
    REQUIRE(listed);
    CHECK(found >= kAddresses);
    changed.acquire();
  }
  INFO(listings << " listings");
  CHECK(interrupted() >= 5);
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

#include "test/kernel/netlink_tap.h"

#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/if_packet.h>
#include <linux/ip_vs.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ipvsproxier::test {
namespace {

using netlink::UniqueFd;

// Requests of a large sync come faster than a test gets to run.
constexpr int kBuffer = 32 << 20;
constexpr std::size_t kLargestDatagram = 1 << 20;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

bool changes_ipvs(const char* payload) {
  genlmsghdr header{};
  std::memcpy(&header, payload, sizeof header);
  switch (header.cmd) {
    case IPVS_CMD_NEW_SERVICE:
    case IPVS_CMD_SET_SERVICE:
    case IPVS_CMD_DEL_SERVICE:
    case IPVS_CMD_NEW_DEST:
    case IPVS_CMD_SET_DEST:
    case IPVS_CMD_DEL_DEST:
    case IPVS_CMD_SET_CONFIG:
    case IPVS_CMD_ZERO:
    case IPVS_CMD_FLUSH:
      return true;
    default:
      return false;
  }
}

bool changes_sets(unsigned command) {
  switch (command) {
    case IPSET_CMD_CREATE:
    case IPSET_CMD_DESTROY:
    case IPSET_CMD_FLUSH:
    case IPSET_CMD_RENAME:
    case IPSET_CMD_SWAP:
    case IPSET_CMD_ADD:
    case IPSET_CMD_DEL:
      return true;
    default:
      return false;
  }
}

// Of elements and sets, not of chains and rules.
bool changes_nft_sets(unsigned command) {
  return command == NFT_MSG_NEWSET || command == NFT_MSG_DELSET || command == NFT_MSG_NEWSETELEM ||
         command == NFT_MSG_DELSETELEM;
}

bool changes_nft_rules(unsigned command) {
  return command == NFT_MSG_NEWCHAIN || command == NFT_MSG_DELCHAIN || command == NFT_MSG_NEWRULE ||
         command == NFT_MSG_DELRULE;
}

// The table is the first attribute of these messages. At its start the daemon tries whether the
// kernel takes its rules, with a table that nobody sees.
bool is_about_our_nft_table(std::string_view attributes) {
  constexpr std::string_view kTable("kube-ipvs\0", 10);
  return attributes.substr(NLA_HDRLEN).starts_with(kTable);
}

bool changes_links(unsigned type) {
  return type == RTM_NEWLINK || type == RTM_DELLINK || type == RTM_SETLINK || type == RTM_NEWADDR ||
         type == RTM_DELADDR;
}

void count(int protocol, const nlmsghdr& header, std::string_view content, WriteRequests& seen) {
  const char* payload = content.data();
  const unsigned subsystem = NFNL_SUBSYS_ID(header.nlmsg_type);
  const unsigned command = NFNL_MSG_TYPE(header.nlmsg_type);
  if (protocol == NETLINK_GENERIC && header.nlmsg_type > GENL_ID_CTRL) {
    seen.ipvs += changes_ipvs(payload) ? 1 : 0;
  } else if (protocol == NETLINK_NETFILTER && subsystem == NFNL_SUBSYS_IPSET) {
    seen.sets += changes_sets(command) ? 1 : 0;
  } else if (protocol == NETLINK_NETFILTER && subsystem == NFNL_SUBSYS_CTNETLINK) {
    seen.flows += command == IPCTNL_MSG_CT_NEW || command == IPCTNL_MSG_CT_DELETE ? 1 : 0;
  } else if (protocol == NETLINK_NETFILTER && subsystem == NFNL_SUBSYS_NFTABLES) {
    if (content.size() < sizeof(nfgenmsg) + NLA_HDRLEN ||
        !is_about_our_nft_table(content.substr(sizeof(nfgenmsg))))
      return;
    seen.sets += changes_nft_sets(command) ? 1 : 0;
    seen.rules += changes_nft_rules(command) ? 1 : 0;
  } else if (protocol == NETLINK_ROUTE) {
    seen.links += changes_links(header.nlmsg_type) ? 1 : 0;
  }
}

}  // namespace

NetlinkTap::NetlinkTap(const Netns& netns) {
  netns.ip("link add nlmon0 type nlmon\nlink set nlmon0 up\n");
  netns.inside([&] {
    socket_ = UniqueFd(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) fail("packet socket");
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof kBuffer) < 0)
      fail("SO_RCVBUFFORCE");
    sockaddr_ll link{};
    link.sll_family = AF_PACKET;
    link.sll_protocol = htons(0x0003);  // ETH_P_ALL
    link.sll_ifindex = static_cast<int>(::if_nametoindex("nlmon0"));
    if (::bind(socket_.get(), reinterpret_cast<sockaddr*>(&link), sizeof link) < 0)
      fail("bind to nlmon0");
  });
}

bool NetlinkTap::receive(int timeout_ms) {
  pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&entry, 1, timeout_ms) <= 0) return false;
  static std::vector<char> datagram(kLargestDatagram);
  sockaddr_ll from{};
  socklen_t from_size = sizeof from;
  const ssize_t received = ::recvfrom(socket_.get(), datagram.data(), datagram.size(), MSG_TRUNC,
                                      reinterpret_cast<sockaddr*>(&from), &from_size);
  if (received < 0) fail("receive from nlmon0");
  const auto size = static_cast<std::size_t>(received);
  if (size > datagram.size()) throw std::runtime_error("a netlink datagram of 1 MiB");
  for (std::size_t at = 0; at + NLMSG_HDRLEN + sizeof(genlmsghdr) <= size;) {
    nlmsghdr header{};
    std::memcpy(&header, datagram.data() + at, sizeof header);
    if (header.nlmsg_len < NLMSG_HDRLEN) break;
    // An answer or a notification is no request.
    if ((header.nlmsg_flags & NLM_F_REQUEST) != 0)
      count(ntohs(from.sll_protocol), header,
            {datagram.data() + at + NLMSG_HDRLEN,
             std::min<std::size_t>(header.nlmsg_len, size - at) - NLMSG_HDRLEN},
            seen_);
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return true;
}

WriteRequests NetlinkTap::take() {
  while (receive(0)) {
  }
  tpacket_stats lost{};
  socklen_t size = sizeof lost;
  if (::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &lost, &size) < 0)
    fail("PACKET_STATISTICS");
  if (lost.tp_drops != 0) throw std::runtime_error("the kernel dropped copies of messages");
  return std::exchange(seen_, {});
}

bool NetlinkTap::wait_for(std::size_t requests, int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (seen_.total() < requests) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !receive(static_cast<int>(left.count()))) return false;
  }
  return true;
}

}  // namespace ipvsproxier::test

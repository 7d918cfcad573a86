#include "netlink/nftables/nftables_monitor.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "netlink/unique_fd.h"

namespace ipvsproxier::netlink {

namespace {

constexpr std::size_t kNftReceiveBytes = 64 * 1024;

// A thread that has other work takes no more at a time; the rest stays readable.
constexpr int kMostNftDatagrams = 4096;

// Takes the datagrams that wait. False: some were lost.
bool read_nft_datagrams(int fd, Bytes& buffer, const NftEventReader& reader, NftEvents& events) {
  bool complete = true;
  for (int taken = 0; taken < kMostNftDatagrams; ++taken) {
    sockaddr_nl sender{};
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_name = &sender;
    message.msg_namelen = sizeof sender;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const auto size = recvmsg(fd, &message, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return complete;
    if (size < 0) {
      complete = false;
      // After ENOBUFS the kernel drops notifications until it finds the queue empty.
      if (errno == ENOBUFS) continue;
      return complete;
    }
    // Any process may send to our port; only the kernel sends from port 0.
    if (message.msg_namelen != sizeof sender || sender.nl_pid != 0) continue;
    if ((message.msg_flags & MSG_TRUNC) != 0)
      complete = false;
    else
      reader.take(ByteView(buffer).first(static_cast<std::size_t>(size)), events);
  }
  return complete;
}

Error cannot_watch_nft(int sys_errno) {
  return make_error(Operation::nftables, sys_errno, "watch tables of nf_tables");
}

}  // namespace

struct NftMonitor::Io {
  UniqueFd socket;
  NftEventReader reader;
  Bytes buffer = Bytes(kNftReceiveBytes);
};

NftMonitor::NftMonitor(std::unique_ptr<Io> io) : io_(std::move(io)) {}
NftMonitor::~NftMonitor() = default;

Result<std::unique_ptr<NftMonitor>> NftMonitor::open(std::vector<NftTableKey> tables,
                                                     int receive_buffer) {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!fd) return cannot_watch_nft(errno);
  // The group needs CAP_NET_ADMIN anyway (nfnetlink.c).
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(int)) != 0)
    return cannot_watch_nft(errno);
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = 1U << (NFNLGRP_NFTABLES - 1);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0)
    return cannot_watch_nft(errno);
  auto io = std::make_unique<Io>(Io{std::move(fd), NftEventReader(std::move(tables))});
  return std::unique_ptr<NftMonitor>(new NftMonitor(std::move(io)));
}

int NftMonitor::fd() const {
  return io_->socket.get();
}

NftEvents NftMonitor::take() {
  NftEvents events;
  if (!read_nft_datagrams(fd(), io_->buffer, io_->reader, events)) events.overrun = true;
  return events;
}

}  // namespace ipvsproxier::netlink

#include "netlink/nftables/nftables_monitor.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "netlink/nl_notifications.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::netlink {

namespace {

constexpr std::size_t kNftReceiveBytes = 64 * 1024;

// A thread that has other work takes no more at a time; the rest stays readable.
constexpr int kMostNftDatagrams = 4096;

// Takes the datagrams that wait. False: some were lost.
bool read_nft_datagrams(int fd, Bytes& buffer, const NftEventReader& reader, NftEvents& events) {
  bool complete = true;
  ByteView datagram;
  for (int taken = 0; taken < kMostNftDatagrams; ++taken) {
    switch (receive_notification(fd, buffer, datagram)) {
      case Received::datagram:
        reader.take(datagram, events);
        break;
      case Received::lost:
        complete = false;
        break;
      case Received::foreign:
        break;
      case Received::nothing:
        return complete;
      case Received::failed:
        return false;
    }
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

#include "netlink/nftables/nftables_monitor.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
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

constexpr int kMostDiscards = 16;

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

// Lets the kernel drop datagrams whose first message names this socket. 0: success, else errno.
int leave_out_own(int fd, std::uint32_t port) {
  constexpr std::uint32_t kPortOffset = offsetof(nlmsghdr, nlmsg_pid);
  constexpr std::uint32_t kAll = 0xffffffff;
  // Loads are in network byte order (Documentation/networking/filter.rst).
  std::array<sock_filter, 4> program{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, kPortOffset},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, htonl(port)},
                                      {BPF_RET | BPF_K, 0, 0, 0},
                                      {BPF_RET | BPF_K, 0, 0, kAll}}};
  const sock_fprog filter{program.size(), program.data()};
  const int set = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
  return set == 0 ? 0 : errno;
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
                                                     std::uint32_t own_port, int receive_buffer) {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!fd) return cannot_watch_nft(errno);
  // The second works without CAP_NET_ADMIN in the first user namespace, up to net.core.rmem_max.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(int)) != 0 &&
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(int)) != 0)
    return cannot_watch_nft(errno);
  if (const int failed = leave_out_own(fd.get(), own_port); failed != 0)
    return cannot_watch_nft(failed);
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

void NftMonitor::watch(const NftTableKey& table, std::uint32_t since) {
  // As many as the buffer may hold; the rest is known by its generation.
  for (int i = 0; i < kMostDiscards; ++i) {
    NftEvents old;
    take(old);
    if (!old.generation && old.changes.empty() && !old.overrun) break;
  }
  io_->reader.watch({table}, since);
}

void NftMonitor::take(NftEvents& events) {
  if (!read_nft_datagrams(fd(), io_->buffer, io_->reader, events)) events.overrun = true;
}

NftEvents NftMonitor::take() {
  NftEvents events;
  take(events);
  return events;
}

}  // namespace ipvsproxier::netlink

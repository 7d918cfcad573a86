#include "netlink/links/link_monitor.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include <fmt/format.h>

#include "netlink/links/link_events.h"
#include "netlink/nl_notifications.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::netlink {

namespace {

constexpr int kReceiveBuffer = 4 << 20;
constexpr std::size_t kReceiveBytes = 64 * 1024;

// The indices of the existing links of the series. Read without RTNL, which other programs may hold
// for long. Only existing names are asked for: for any other name the kernel starts modprobe
// (dev_load(), net/core/dev_ioctl.c). Any socket answers for its own network namespace; the file
// belongs to the thread's.
std::set<std::int32_t> indices_of(int fd, const std::string& series) {
  std::set<std::int32_t> indices;
  std::ifstream links("/proc/thread-self/net/dev");
  for (std::string line; std::getline(links, line);) {
    const auto begin = line.find_first_not_of(' ');
    const auto end = line.find(':');
    if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
    const auto link = line.substr(begin, end - begin);
    ifreq request{};
    if (!number_in_series(link, series) || link.size() >= sizeof request.ifr_name) continue;
    std::memcpy(request.ifr_name, link.c_str(), link.size() + 1);
    if (ioctl(fd, SIOCGIFINDEX, &request) == 0) indices.insert(request.ifr_ifindex);
  }
  return indices;
}

Error cannot_watch(int sys_errno) {
  return make_error(Operation::link, sys_errno, "watch links and addresses");
}

}  // namespace

struct LinkMonitor::Io {
  UniqueFd socket;
  std::string series;
  LinkEventReader reader;
  Bytes buffer = Bytes(kReceiveBytes);
};

LinkMonitor::LinkMonitor(std::unique_ptr<Io> io) : io_(std::move(io)) {}
LinkMonitor::~LinkMonitor() = default;

Result<std::unique_ptr<LinkMonitor>> LinkMonitor::open(const std::string& series, bool local_routes,
                                                       const std::string& loop_series) {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd) return cannot_watch(errno);
  // Without CAP_NET_ADMIN net.core.rmem_max is the limit.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof(int)) != 0)
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof(int));
  sockaddr_nl groups{};
  groups.nl_family = AF_NETLINK;
  groups.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (local_routes) groups.nl_groups |= RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&groups), sizeof groups) != 0)
    return cannot_watch(errno);
  // Read after joining the groups: no later change is missed.
  auto indices = indices_of(fd.get(), series);
  auto io = std::make_unique<Io>(
      Io{std::move(fd), series, LinkEventReader(series, std::move(indices), loop_series)});
  return std::unique_ptr<LinkMonitor>(new LinkMonitor(std::move(io)));
}

int LinkMonitor::fd() const {
  return io_->socket.get();
}

LinkEvents LinkMonitor::take() {
  LinkEvents events;
  bool lost = false;
  ByteView datagram;
  // After an overrun the kernel drops notifications until it finds the queue empty, so read it
  // empty.
  while (true) {
    const auto received = receive_notification(fd(), io_->buffer, datagram);
    if (received == Received::nothing || received == Received::failed) {
      lost = lost || received == Received::failed;
      break;
    }
    if (received == Received::lost)
      lost = true;
    else if (received == Received::datagram)
      io_->reader.take(datagram, events);
  }
  if (lost || events.overrun) {
    events.overrun = true;
    io_->reader.restart(indices_of(fd(), io_->series));
  }
  return events;
}

}  // namespace ipvsproxier::netlink

#include "netlink/nl_notifications.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>

namespace ipvsproxier::netlink {

Received receive_notification(int fd, Bytes& buffer, ByteView& datagram) {
  sockaddr_nl sender{};
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_name = &sender;
  message.msg_namelen = sizeof sender;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t size = 0;
  do size = recvmsg(fd, &message, MSG_DONTWAIT);
  while (size < 0 && errno == EINTR);
  if (size < 0 && errno == ENOBUFS) return Received::lost;
  if (size < 0) return errno == EAGAIN ? Received::nothing : Received::failed;
  // Any process may send to our port; only the kernel sends from port 0.
  if (message.msg_namelen != sizeof sender || sender.nl_pid != 0) return Received::foreign;
  if ((message.msg_flags & MSG_TRUNC) != 0) return Received::lost;
  datagram = ByteView(buffer).first(static_cast<std::size_t>(size));
  return Received::datagram;
}

}  // namespace ipvsproxier::netlink

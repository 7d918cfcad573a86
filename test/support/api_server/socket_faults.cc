#include "test/support/api_server/socket_faults.h"

#include <linux/filter.h>
#include <sys/socket.h>

namespace ipvsproxier::test {

void reset_connection(int socket) {
  // Dissolving a TCP connection resets it (tcp_disconnect()); closing with SO_LINGER would be sent
  // behind the FIN of a server that shuts down first.
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  static_cast<void>(::connect(socket, &nobody, sizeof nobody));
}

void drop_packets(int socket, bool drop) {
  if (!drop) {
    const int unused = 0;
    setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
    return;
  }
  sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};  // accepts 0 bytes of any packet
  const sock_fprog program{.len = 1, .filter = &nothing};
  setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

}  // namespace ipvsproxier::test

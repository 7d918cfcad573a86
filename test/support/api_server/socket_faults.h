#pragma once

// What the network does to a connection, done to the server's end of it; no privilege is needed.

namespace ipvsproxier::test {

// Sends RST at once. The descriptor stays open and is good for nothing.
void reset_connection(int socket);

// From now on packets for this socket vanish before TCP sees them, or no longer do: nothing is
// acknowledged, not even a keep-alive probe (a socket filter runs first in tcp_v4_rcv()). On a
// listening socket: no connection is answered, and what is accepted later starts out like it.
void drop_packets(int socket, bool drop);

}  // namespace ipvsproxier::test

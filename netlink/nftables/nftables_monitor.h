#pragma once

// NftMonitor: notifications about tables of nf_tables in the network namespace in which it was
// opened (nfnetlink group NFTABLES): somebody flushed our table, or edited it. For the daemon's
// main thread, beside LinkMonitor, so that the sync thread reads that table again at once; no part
// of the daemon calls it yet. One thread.
//
// A transaction is told when it is there, by one message for each of its changes. Notifications
// that do not fit into the receive buffer are lost, and the next receive fails with ENOBUFS
// (af_netlink.c): others may write large tables.

#include <memory>
#include <vector>

#include "netlink/nftables/nftables_events.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class NftMonitor {
 public:
  static constexpr int kReceiveBuffer = 4 << 20;  // bytes

  // Starts watching these tables; they need not exist. `unsupported` without nfnetlink, `denied`
  // without CAP_NET_ADMIN.
  static Result<std::unique_ptr<NftMonitor>> open(std::vector<NftTableKey> tables,
                                                  int receive_buffer = kReceiveBuffer);
  ~NftMonitor();

  int fd() const;  // readable when take() has notifications, perhaps of others' tables

  // The changes since the last call, our own ones too; does not block. After an overrun the caller
  // must read its tables again.
  NftEvents take();

 private:
  struct Io;
  explicit NftMonitor(std::unique_ptr<Io> io);

  std::unique_ptr<Io> io_;
};

}  // namespace ipvsproxier::netlink

#pragma once

// NftMonitor: notifications about tables of nf_tables in the network namespace in which it was
// opened (nfnetlink group NFTABLES): somebody flushed our table, or edited it. The daemon's main
// thread has it beside LinkMonitor, so that the sync thread reads that table again. One thread.
//
// A transaction is told when it is there, by one message for each of its changes. Notifications
// that do not fit into the receive buffer are lost, and the next receive fails with ENOBUFS
// (af_netlink.c): others may write large tables. Our own transactions must not fill that buffer: a
// filter of the socket takes them away. A datagram has messages of one transaction, and each names
// the socket that asked for it (nft_commit_notify() in nf_tables_api.c, 6.1).

#include <cstdint>
#include <memory>
#include <vector>

#include "netlink/nftables/nftables_events.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

class NftMonitor {
 public:
  static constexpr int kReceiveBuffer = 4 << 20;  // bytes

  // Starts watching these tables, which need not exist. Transactions that
  // the socket `own_port` asks for (NlChannel::port(); 0: none) are not told. `unsupported` without
  // nfnetlink, `denied` without CAP_NET_ADMIN.
  static Result<std::unique_ptr<NftMonitor>> open(std::vector<NftTableKey> tables,
                                                  std::uint32_t own_port,
                                                  int receive_buffer = kReceiveBuffer);
  ~NftMonitor();

  // Discards what waits, and watches this table alone from now on, after this generation (the
  // number of transactions so far).
  void watch(const NftTableKey& table, std::uint32_t since);

  int fd() const;  // readable when take() has notifications, perhaps of others' tables

  // Adds the changes since the last call to `events`; does not block. After an overrun the caller
  // must read its tables again.
  void take(NftEvents& events);
  NftEvents take();  // alone

 private:
  struct Io;
  explicit NftMonitor(std::unique_ptr<Io> io);

  std::unique_ptr<Io> io_;
};

}  // namespace ipvsproxier::netlink

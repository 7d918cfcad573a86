#pragma once

// KernelFeed: passes notifications of the kernel to the sync thread: changes of links, addresses
// and routes, changes by others of our table of nf_tables, and of any base chain. Main thread only.
// Without a kind of notification only the periodic reading (ipvs.syncPeriod) finds what others
// change; that is logged.

#include <memory>

#include <spdlog/logger.h>

#include "cmd/ipvs_proxier/cluster_feed.h"
#include "cmd/kernel_tables.h"
#include "netlink/links/link_monitor.h"
#include "netlink/nftables/nftables_monitor.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::cmd {

class KernelFeed {
 public:
  // `loop` and `mail` must outlive this. `local_routes`: VIPs are bound by routes.
  KernelFeed(loop::MainLoop& loop, SyncMail& mail, const KernelTables& tables, bool local_routes,
             spdlog::logger& logger);
  KernelFeed(const KernelFeed&) = delete;
  KernelFeed& operator=(const KernelFeed&) = delete;
  ~KernelFeed();

 private:
  void watch_links(bool local_routes, spdlog::logger& logger);
  void watch_filter(const KernelTables& tables, spdlog::logger& logger);

  loop::MainLoop& loop_;
  SyncMail& mail_;
  std::unique_ptr<netlink::LinkMonitor> links_;
  std::unique_ptr<netlink::NftMonitor> filter_;
};

}  // namespace ipvsproxier::cmd

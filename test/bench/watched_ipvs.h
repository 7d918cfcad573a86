#pragma once

// WatchedIpvsTable: passes everything on to another table, and notes when the kernel has answered:
// an operation on one real server that somebody waits for, and how long additions took. expect()
// and wait() are for one thread, the table's functions for another.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <semaphore>
#include <span>
#include <vector>

#include "netlink/ipvs/ipvs_table.h"

namespace ipvsproxier::bench {

// When an operation that was waited for reached the table, and was answered, as now_ms().
struct Watched {
  double reached = 0;
  double answered = 0;
  std::uint64_t asked = 0;  // asked(), when it reached the table
};

class WatchedIpvsTable final : public netlink::IpvsTable {
 public:
  explicit WatchedIpvsTable(netlink::IpvsTable& table) : table_(table) {}

  void expect(const netlink::RealServerKey& server);
  // Until the next operation on it was answered. Throws std::runtime_error after ten seconds.
  Watched wait();
  // What a call is on its way for, now: "" for none. Any thread.
  const char* doing() const { return doing_; }
  // How many operations and listings of real servers there were. Any thread.
  std::uint64_t asked() const { return asked_; }
  // Milliseconds in calls that begin with the addition of a real server.
  double addition_ms() const { return addition_ms_; }

  std::vector<netlink::Status> apply(std::span<const netlink::IpvsOp> ops) override;
  netlink::Result<std::vector<netlink::VirtualService>> list_services() override {
    return table_.list_services();
  }
  netlink::Result<ServicesPart> begin_services() override { return table_.begin_services(); }
  netlink::Result<ServicesPart> next_services() override { return table_.next_services(); }
  netlink::Result<std::vector<netlink::ListedServer>> list_servers(
      const netlink::VirtualServiceKey& service) override {
    ++asked_;
    doing_ = "lists real servers";
    auto listed = table_.list_servers(service);
    doing_ = "";
    return listed;
  }
  netlink::Result<netlink::IpvsTraffic> traffic(
      const netlink::VirtualServiceKey& service) override {
    return table_.traffic(service);
  }
  netlink::Result<bool> has_scheduler(netlink::ShortName scheduler) override {
    return table_.has_scheduler(scheduler);
  }
  netlink::Result<netlink::IpvsTimeouts> timeouts() override { return table_.timeouts(); }
  netlink::Status set_timeouts(const netlink::IpvsTimeouts& wanted) override {
    return table_.set_timeouts(wanted);
  }
  std::uint64_t requests() const override { return table_.requests(); }

 private:
  netlink::IpvsTable& table_;
  netlink::RealServerKey expected_;
  std::atomic<bool> expects_ = false;
  std::atomic<const char*> doing_ = "";
  std::atomic<std::uint64_t> asked_ = 0;
  Watched watched_;
  std::binary_semaphore done_{0};
  double addition_ms_ = 0;
};

}  // namespace ipvsproxier::bench

#pragma once

// FakeIpvsTable: an IPVS table in memory that refuses what Linux 6.1 refuses. The contract tests
// run against it and against the kernel. Lists are in key order.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "netlink/ipvs/ipvs_table.h"
#include "test/fakes/fault_injector.h"

namespace ipvsproxier::test {

class FakeIpvsTable final : public netlink::IpvsTable {
 public:
  std::vector<netlink::Status> apply(std::span<const netlink::IpvsOp> ops) override;
  netlink::Result<std::vector<netlink::VirtualService>> list_services() override;
  netlink::Result<ServicesPart> begin_services() override;
  netlink::Result<ServicesPart> next_services() override;
  netlink::Result<std::vector<netlink::ListedServer>> list_servers(
      const netlink::VirtualServiceKey& service) override;
  netlink::Result<netlink::IpvsTraffic> traffic(const netlink::VirtualServiceKey& service) override;
  netlink::Result<bool> has_scheduler(netlink::ShortName scheduler) override;
  netlink::Result<netlink::IpvsTimeouts> timeouts() override;
  netlink::Status set_timeouts(const netlink::IpvsTimeouts& timeouts) override;

  // Consulted before every operation and listing.
  FaultInjector faults;

  // Called after every operation, whatever became of it.
  std::function<void(const netlink::IpvsOp&)> after;

  // What is there, past all faults; nothing or nullptr where there is no such real server.
  bool contains(const netlink::VirtualServiceKey& key) const { return entries_.contains(key); }
  std::vector<netlink::VirtualService> services() const;
  std::vector<netlink::ListedServer> servers(const netlink::VirtualServiceKey& service) const;
  const netlink::RealServer* server(const netlink::VirtualServiceKey& service,
                                    const netlink::RealServerKey& key) const;

  // Schedulers that "modprobe" would find.
  std::set<std::string> schedulers = {"rr",  "wrr", "lc", "wlc", "lblc", "lblcr", "dh",  "sh",
                                      "sed", "nq",  "fo", "ovf", "mh",   "twos",  "none"};

  // Others remove everything.
  void vanish();
  // They removed it, and it was not asked for since.
  bool is_unseen(const netlink::VirtualServiceKey& key) const { return unseen_.contains(key); }

  // Operations and timeout writes received so far, the failed ones included.
  std::size_t writes() const { return writes_; }
  std::uint64_t requests() const override { return writes_; }

  // Listings of real servers so far.
  std::size_t server_listings() const { return server_listings_; }

  // Readings of counters so far.
  std::size_t counter_readings() const { return counter_readings_; }

  // Pretends that the kernel counted this for a virtual service, which must exist.
  void set_traffic(const netlink::VirtualServiceKey& service, const netlink::IpvsTraffic& traffic);

  // Pretends that the kernel counted connections of a real server, which must exist.
  void set_connections(const netlink::VirtualServiceKey& service,
                       const netlink::RealServerKey& server, std::uint32_t active,
                       std::uint32_t inactive);

 private:
  struct Entry {
    netlink::VirtualService service;
    std::map<netlink::RealServerKey, netlink::ListedServer> servers;
    netlink::IpvsTraffic traffic;
  };

  netlink::Status apply_one(const netlink::IpvsOp& op);
  netlink::Status put(const netlink::IpvsOp& op, const netlink::VirtualService& service);
  netlink::Status put(const netlink::IpvsOp& op, const netlink::VirtualServiceKey& service,
                      const netlink::RealServer& server);
  Entry* find(const netlink::VirtualServiceKey& key);

  std::map<netlink::VirtualServiceKey, Entry> entries_;
  netlink::IpvsTimeouts timeouts_{.tcp = 900, .tcp_fin = 120, .udp = 300};
  std::set<netlink::VirtualServiceKey> unseen_;
  std::size_t writes_ = 0;
  std::size_t server_listings_ = 0;
  std::size_t counter_readings_ = 0;
  std::size_t listed_ = 0;  // virtual services, by the listing in parts; counted as the kernel does
};

}  // namespace ipvsproxier::test

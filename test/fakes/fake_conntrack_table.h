#pragma once

// FakeConntrackTable: tracked flows of the default zone in memory. Lists are in order.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "netlink/conntrack/conntrack_table.h"
#include "test/fakes/fault_injector.h"

namespace ipvsproxier::test {

class FakeConntrackTable final : public netlink::ConntrackTable {
 public:
  netlink::Result<std::vector<netlink::Flow>> list(const netlink::FlowQuery& query) override;
  netlink::Result<std::size_t> count() override { return flows_.size() + uncounted; }
  netlink::Result<FlowsPart> begin_list(netlink::Family family,
                                        const std::set<netlink::Protocol>& protocols) override;
  netlink::Result<FlowsPart> next_list() override;
  std::vector<netlink::Status> remove(std::span<const netlink::Flow> flows) override;

  std::size_t uncounted = 0;  // flows that are tracked and in no list
  std::size_t flows_a_part = 1000;

  // Consulted before every operation and listing.
  FaultInjector faults;

  // A packet of a client: its flow, which it makes, with a new id, unless it is tracked already.
  netlink::Flow track(const netlink::FlowEnd& source, const netlink::FlowEnd& destination,
                      const netlink::FlowEnd& server,
                      netlink::Protocol protocol = netlink::Protocol::udp, bool answered = false);

  void vanish() { flows_.clear(); }
  // A flowtable forwards a flow, which is tracked.
  void offload(const netlink::FlowEnd& source, const netlink::FlowEnd& destination,
               netlink::Protocol protocol) {
    flows_.at({protocol, source, destination}).untranslated_offload = true;
  }
  // The ports of the clients.
  std::set<std::uint16_t> sources() const {
    std::set<std::uint16_t> ports;
    for (const auto& [ends, flow] : flows_) ports.insert(flow.source.port);
    return ports;
  }

  // Removals and listings received so far, the failed ones included.
  std::size_t writes() const { return writes_; }
  std::size_t listings() const { return listings_; }
  std::uint64_t requests() const override { return writes_ + listings_; }

 private:
  // By protocol, source and destination.
  std::map<std::tuple<netlink::Protocol, netlink::FlowEnd, netlink::FlowEnd>, netlink::Flow> flows_;
  std::uint32_t last_id_ = 0;
  // What begin_list() asked for, and how far its listing is.
  netlink::Family listed_family_ = netlink::Family::ipv4;
  std::set<netlink::Protocol> listed_protocols_;
  std::optional<std::tuple<netlink::Protocol, netlink::FlowEnd, netlink::FlowEnd>> listed_to_;
  std::size_t writes_ = 0;
  std::size_t listings_ = 0;
};

}  // namespace ipvsproxier::test

#pragma once

// ActualState: what the kernel holds, as values of the same shape as DesiredState. Only dumps make
// one (sync/kernel_state.h), and only operations that succeeded change it. A part that could not be
// read is absent: nothing is concluded from it. Any thread.

#include <map>
#include <optional>
#include <set>

#include "ipset/rule_types.h"
#include "ipset/set_types.h"
#include "netlink/ipvs_types.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::plan {

using RealServers = SortedVector<netlink::RealServer, &netlink::RealServer::key>;

struct ActualService {
  netlink::VirtualService service;
  // nullopt: could not be read; its servers are then left as they are
  std::optional<RealServers> servers;

  friend auto operator<=>(const ActualService&, const ActualService&) = default;
};

struct TableKey {
  netlink::Family family = netlink::Family::ipv4;
  ipset::Table table = ipset::Table::filter;

  friend auto operator<=>(const TableKey&, const TableKey&) = default;
};

struct ActualState {
  // Without firewall-mark services: those are never ours.
  std::optional<std::map<netlink::VirtualServiceKey, ActualService>> services;
  // On our dummy links, and by local routes of ours.
  std::optional<Bindings> addresses;
  // Those on links that are not removed: those with another prefix than a host's (nobody in
  // kube-proxy's place made them; the kernel makes IPv6 link-local ones) and, without
  // Differences::unbind_special, loopback and IPv6 link-local ones.
  std::set<netlink::IpAddress> fixed_addresses;
  // nullopt: no such set. A set that is not in the map could not be read.
  std::map<SetKey, std::optional<ipset::ElementSet>> sets;
  // maxelem of those sets whose is not kube-proxy's; 0: the set has options that ours do not have.
  std::map<SetKey, std::uint32_t> odd_capacities;
  // Of each table that could be read: what of ours is there.
  std::map<TableKey, ipset::TableRules> rules;

  // The kernel took this operation (the tables' operations are idempotent, so is this).
  void commit(const netlink::IpvsOp& op);
  void commit(const BindingOp& op);
  void commit(const SetKey& set, const ipset::ElementOp& op);
  void commit(const ipset::SetSpec& made);
  void commit(const ipset::TableRules& table);

  std::uint32_t capacity(const SetKey& set) const;
  friend bool operator==(const ActualState&, const ActualState&) = default;
};

// Every key of either.
Scope whole(const DesiredState& desired, const ActualState& actual);

}  // namespace ipvsproxier::plan

#pragma once

// ActualState: the state of the kernel as values, in the same shape as DesiredState. It is read
// from the kernel (sync/read_back.h); the daemon keeps one up to date with its
// own operations (plan/mirror.h). A part that could not be read is absent, and no conclusion is
// drawn from its absence. Any thread.

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ipset/rules/rule_types.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::plan {

using RealServers = SortedVector<netlink::RealServer, &netlink::RealServer::key>;
// Those of a listing, and whether they are those of a listing that is sorted by key.
RealServers listed_servers(const std::vector<netlink::ListedServer>& listed);
bool is_listing(const RealServers& servers, const std::vector<netlink::ListedServer>& listed);

struct ActualService {
  netlink::VirtualService service;
  // nullopt: the real servers could not be read and are left alone
  std::optional<RealServers> servers;

  friend auto operator<=>(const ActualService&, const ActualService&) = default;
};

struct TableKey {
  netlink::Family family = netlink::Family::ipv4;
  ipset::Table table = ipset::Table::filter;

  friend auto operator<=>(const TableKey&, const TableKey&) = default;
};

struct ActualState {
  // Ours. Without firewall-mark services, which never are. nullopt: could not be read.
  std::optional<std::map<netlink::VirtualServiceKey, ActualService>> services;
  // Those of other programs (ownership.h).
  std::set<netlink::VirtualServiceKey> foreign;
  // Ours if they are there, until the kernel was read without a surprise: those known when
  // `services` could not be read, and those whose addition had no answer.
  std::set<netlink::VirtualServiceKey> remembered;
  // Addresses on our dummy links and of our local routes. nullopt: could not be read.
  std::optional<Bindings> addresses;
  // Addresses on our links that are never removed: those with a prefix that is no host prefix
  // (another program, or for IPv6 link-local the kernel, made them), and, without
  // Differences::unbind_special, loopback and IPv6 link-local addresses.
  std::set<netlink::IpAddress> fixed_addresses;
  // nullopt: the set does not exist. A set that is not in the map could not be read.
  std::map<SetKey, std::optional<ipset::ElementSet>> sets;
  // Those of their names that another program has.
  std::set<SetKey> foreign_sets;
  // maxelem of sets where it differs from kube-proxy's; 0: the set has options that ours do not
  // have.
  std::map<SetKey, std::uint32_t> odd_capacities;
  // Our chains and jumps in each table that could be read.
  std::map<TableKey, ipset::TableRules> rules;

  // Records an operation that the kernel accepted. Idempotent, like the operations themselves.
  void commit(const netlink::IpvsOp& op);
  void commit(const BindingOp& op);
  void commit(const SetKey& set, const ipset::ElementOp& op);
  void commit(const ipset::SetSpec& made);
  void commit(const ipset::TableRules& table);
  // The virtual services could not be read.
  void lose_services();

  std::uint32_t capacity(const SetKey& set) const;
  friend bool operator==(const ActualState&, const ActualState&) = default;
};

// A scope with all keys of both states.
Scope whole(const DesiredState& desired, const ActualState& actual);

}  // namespace ipvsproxier::plan

#pragma once

// --cleanup: removes everything that this program keeps in the kernel, and the leftovers of
// kube-proxy's other modes. Other programs' sets, chains, rules, links and virtual services
// (plan/ownership.h) stay, as do firewall-mark services and virtual services in excluded prefixes.
// Sysctls, IPVS timeouts and conntrack are not reverted. The calling thread owns the tables.

#include <cstddef>
#include <string>
#include <vector>

#include "ipset/rules/rule_table.h"
#include "ipset/sets/set_table.h"
#include "netlink/ipvs/ipvs_table.h"
#include "netlink/links/link_table.h"
#include "proxier/sync/kernel.h"
#include "proxier/sync/take_over.h"

namespace ipvsproxier::cmd {

// nullptr: the kernel does not have this table.
struct CleanupTables {
  netlink::IpvsTable* ipvs = nullptr;
  netlink::LinkTable* links = nullptr;
  ipset::SetTable* sets = nullptr;
  ipset::RuleTable* rules = nullptr;
  ipset::RuleTable* nft_rules = nullptr;  // of our table of nf_tables, if it is there
  ipset::SetTable* nft_sets = nullptr;
  sync::RemoveNftLeftovers remove_nft_leftovers;
};

struct CleanupReport {
  std::size_t links = 0;
  std::size_t local_routes = 0;
  std::size_t services = 0;
  std::size_t jumps = 0;
  std::size_t chains = 0;
  std::size_t sets = 0;
  std::size_t nft_tables = 0;
  std::size_t foreign = 0;  // virtual services that stay, as they are those of other programs
  std::vector<sync::Failure> failures;
};

// "1 links, 0 local routes, 18 virtual services, 18 jumps, 22 chains, 34 sets, 0 nftables tables",
// and "; 2 virtual services of other programs stay" if there are any
std::string to_string(const CleanupReport& report);

// A failure does not stop the rest. Virtual services with addresses in `excluded` stay. With
// `all_services` all others are taken for ours, as kube-proxy does.
CleanupReport clean_up(const CleanupTables& tables, const std::vector<netlink::IpPrefix>& excluded,
                       bool all_services = false);

}  // namespace ipvsproxier::cmd

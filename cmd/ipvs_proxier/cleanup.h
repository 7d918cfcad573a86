#pragma once

// --cleanup: removes everything that this program keeps in the kernel, and the leftovers of
// kube-proxy's other modes. Other programs' sets, chains, rules, links and virtual services
// (plan/ownership.h) stay, as do firewall-mark services and virtual services in excluded prefixes.
// Sysctls, IPVS timeouts and conntrack are not reverted. The calling thread owns the tables.

#include <cstddef>
#include <string>
#include <vector>

#include "ipset/nftables/filter_table.h"
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
  ipset::FilterTable* nftables = nullptr;
};

struct CleanupReport {
  std::size_t links = 0;
  std::size_t local_routes = 0;
  std::size_t services = 0;
  std::size_t jumps = 0;
  std::size_t chains = 0;
  std::size_t sets = 0;
  std::size_t nft_tables = 0;
  // Virtual services that stay, as they are those of other programs.
  std::vector<netlink::VirtualServiceKey> foreign;
  bool of_kube_router = false;  // something of its service proxy was removed
  std::vector<sync::Failure> failures;
};

// "1 links, 0 local routes, 18 virtual services, 18 jumps, 22 chains, 34 sets, 0 nftables tables",
// and "; 2 virtual services of other programs stay: 192.0.2.1:80/TCP, ..." if there are any
std::string to_string(const CleanupReport& report);

struct CleanupScope {
  std::vector<netlink::IpPrefix> excluded;  // virtual services there stay
  bool all_services = false;                // all others are taken for ours, as kube-proxy does
  bool kube_router = true;                  // what its service proxy left is removed as well
};

// A failure does not stop the rest.
CleanupReport clean_up(const CleanupTables& tables, const CleanupScope& scope);

}  // namespace ipvsproxier::cmd

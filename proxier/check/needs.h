#pragma once

// The kernel modules that a daemon needs, and what is lost without each. Pure; any thread.

#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/check/facts.h"
#include "proxier/check/findings.h"

namespace ipvsproxier::check {

struct ModuleNeed {
  std::string module;  // "xt_set"
  std::string other;   // a module of older kernels that does the same; "": none
  Level level = Level::cannot;
  std::string loss;  // a clause: "no Service is served"
  // The loss is that of this family alone.
  std::optional<netlink::Family> family;
  bool asked_for_by_kernel = true;  // kernel_modules.h

  friend auto operator<=>(const ModuleNeed&, const ModuleNeed&) = default;
};

// Ordered by what depends on it: IPVS first. Sets, extensions and tables are those of the
// catalogues (ipset/sets/set_catalog.h, ipset/rules/rule_catalog.h, nft_catalog.h); where
// `wanted.packet_filter` is open, those of iptables.
std::vector<ModuleNeed> needs(const Wanted& wanted);

// What the expressions of our rules of nf_tables are in (net/netfilter/Makefile, 6.1); nullopt: in
// every family.
std::vector<std::string> nft_modules(std::optional<netlink::Family> family);

}  // namespace ipvsproxier::check

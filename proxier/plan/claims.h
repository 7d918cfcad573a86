#pragma once

// Claims: who gets a virtual service that more than one Service asks for. The Service that was
// created first keeps it; at equal or missing creation time the one whose namespace/name comes
// first; within one Service the port that comes first. Pure; one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxier/api/objects.h"
#include "proxier/api/problem.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// One facet of a service port: a virtual service that it asks for.
struct Claim {
  netlink::VirtualServiceKey key;
  Facet facet = Facet::cluster_ip;
  std::size_t port = 0;  // index in the Service's spec.ports

  friend auto operator<=>(const Claim&, const Claim&) = default;
};

class Claims {
 public:
  // From now on the Service asks for these (for nothing: it is gone). Answers the other Services
  // that asked or ask for one of the same, and may have won or lost it now.
  std::set<api::NamespacedName> set(const api::NamespacedName& name, const api::Service* service,
                                    std::vector<Claim> claims);

  // Whether this port of the Service has the key.
  bool holds(const api::NamespacedName& service, std::size_t port,
             const netlink::VirtualServiceKey& key) const;

  // One for each claim that lost, in the order of the keys.
  api::Problems problems() const;

 private:
  struct Claimant {
    std::string origin;
    std::optional<std::int64_t> creation_time;
    std::vector<Claim> claims;
  };
  using Entry = std::pair<const api::NamespacedName, Claimant>;
  struct Asked {
    const Entry* by = nullptr;  // in claimants_
    Facet facet = Facet::cluster_ip;
    std::size_t port = 0;
  };

  void forget(const Entry& entry, std::set<api::NamespacedName>& others);
  static bool ages_decide(const std::vector<Asked>& asked);
  static const Asked& winner_of(const std::vector<Asked>& asked);
  static std::string reason(const std::vector<Asked>& asked, const Asked& winner,
                            const Asked& loser);
  static api::Problem lost(const netlink::VirtualServiceKey& key, const std::vector<Asked>& asked,
                           const Asked& winner, const Asked& loser);

  std::map<api::NamespacedName, Claimant> claimants_;
  std::map<netlink::VirtualServiceKey, std::vector<Asked>> keys_;
  std::set<netlink::VirtualServiceKey> contested_;  // asked for more than once
};

}  // namespace ipvsproxier::plan

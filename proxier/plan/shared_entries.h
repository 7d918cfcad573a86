#pragma once

// SharedEntries: the addresses, elements and rule entries of the desired state of one family that
// several Services may want. An entry is there as long as one Service wants it. Pure; one thread.

#include <map>
#include <set>
#include <utility>

#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/set_types.h"
#include "netlink/containers/sorted_vector.h"
#include "netlink/ip_address.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/iptables_filter.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::plan {

class SharedEntries {
 public:
  // `state` must outlive this.
  SharedEntries(netlink::Family family, DesiredState& state) : family_(family), state_(state) {}

  // The addresses of a Service change. True if those of the state changed.
  bool take_addresses(const SortedVector<netlink::IpAddress>& before,
                      const SortedVector<netlink::IpAddress>& wanted, Scope& scope);
  // The entries of a Service change: `now` becomes `wanted`.
  void replace(FilterEntries& now, FilterEntries wanted, Scope& scope);

 private:
  // Counts how many further Services want the same value.
  template <typename T>
  class Surplus {
   public:
    void add(const T& key) { ++counts_[key]; }
    // False: only one Service wanted it.
    bool take(const T& key) {
      const auto it = counts_.find(key);
      if (it == counts_.end()) return false;
      if (--it->second == 0) counts_.erase(it);
      return true;
    }

   private:
    std::map<T, unsigned> counts_;
  };

  void replace(const SortedVector<ipset::OutFilterEntry>& now,
               const SortedVector<ipset::OutFilterEntry>& wanted, Scope& scope);
  void add_element(ipset::SetId id, const ipset::Element& element, Scope& scope);
  void remove_element(ipset::SetId id, const ipset::Element& element, Scope& scope);
  ipset::RuleParameters& rules() { return state_.rules.at(family_); }

  netlink::Family family_;
  DesiredState& state_;
  Surplus<netlink::IpAddress> addresses_;
  Surplus<std::pair<ipset::SetId, ipset::Element>> elements_;
  Surplus<ipset::OutFilterEntry> out_filter_;
};

}  // namespace ipvsproxier::plan

#pragma once

// Rendering: the elements and rule entries of one family that the traffic values of all Services
// ask for. An entry is there as long as one value asks for it. Pure; one thread.

#include <map>
#include <set>
#include <utility>

#include "ipset/filter/rendered.h"
#include "ipset/sets/element_set.h"

namespace ipvsproxier::ipset {

class Rendering {
 public:
  // What a change touched.
  struct Touched {
    std::map<SetKey, ElementSet>& elements;
    std::set<netlink::Family>& rules;
  };

  // Keeps the elements in `sets`, which has all sets of the family, and the sets that are not empty
  // and the entries with rules of their own in `rules`. Both must outlive this.
  Rendering(netlink::Family family, std::map<SetKey, ElementSet>& sets, RuleParameters& rules)
      : family_(family), sets_(sets), rules_(rules) {}

  // `before` no longer asks, `now` does: values of one Service.
  void replace(Rendered before, Rendered now, Touched touched);

 private:
  // Counts how many further values ask for the same entry.
  template <typename T>
  class Surplus {
   public:
    void add(const T& key) { ++counts_[key]; }
    // False: only one value asked for it.
    bool take(const T& key) {
      const auto it = counts_.find(key);
      if (it == counts_.end()) return false;
      if (--it->second == 0) counts_.erase(it);
      return true;
    }

   private:
    std::map<T, unsigned> counts_;
  };

  void add(const SetElement& one, Touched& touched);
  void remove(const SetElement& one, Touched& touched);

  netlink::Family family_;
  std::map<SetKey, ElementSet>& sets_;
  RuleParameters& rules_;
  Surplus<SetElement> elements_;
  Surplus<OutFilterEntry> out_filter_;
};

}  // namespace ipvsproxier::ipset

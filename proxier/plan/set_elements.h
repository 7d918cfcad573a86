#pragma once

// SetElements: the elements in several sets that one Service asks for. Stored in one block of
// memory, where an IPv4 element takes 20 bytes. A value; any thread.

#include <algorithm>
#include <utility>
#include <vector>

#include "ipset/sets/element_set.h"
#include "ipset/sets/set_catalog.h"
#include "netlink/containers/sorted_vector.h"
#include "netlink/ip_address.h"

namespace ipvsproxier::plan {

using SetElement = std::pair<ipset::SetId, ipset::Element>;

class SetElements {
 public:
  SetElements() = default;
  explicit SetElements(const std::vector<SetElement>& elements);

  bool empty() const { return packed_.empty() && others_.empty(); }
  // Calls visit(set, element) for each.
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& [id, element] : packed_) visit(id, element.unpack());
    for (const auto& [id, element] : others_) visit(id, element);
  }
  // Calls visit(element) for the elements of one set.
  template <typename Visit>
  void each_of(ipset::SetId id, Visit visit) const {
    each_in(packed_, id, [&](const ipset::PackedElement& element) { visit(element.unpack()); });
    each_in(others_, id, visit);
  }
  // Calls visit(set, element) for each element that `other` does not have.
  template <typename Visit>
  void each_without(const SetElements& other, Visit visit) const {
    for (const auto& [id, element] : difference(packed_, other.packed_))
      visit(id, element.unpack());
    for (const auto& [id, element] : difference(others_, other.others_)) visit(id, element);
  }

 private:
  template <typename All, typename Visit>
  static void each_in(const All& all, ipset::SetId id, Visit visit) {
    auto it = std::partition_point(all.begin(), all.end(),
                                   [id](const auto& one) { return one.first < id; });
    for (; it != all.end() && it->first == id; ++it) visit(it->second);
  }

  netlink::SortedVector<std::pair<ipset::SetId, ipset::PackedElement>> packed_;
  netlink::SortedVector<SetElement> others_;
};

// The addresses of Services among them.
netlink::SortedVector<netlink::IpAddress> addresses_in(const SetElements& elements);

}  // namespace ipvsproxier::plan

#pragma once

// The order in which ipvsadm (1.31) prints what it read. Pure, any thread.
//
// It sorts with a comparison that is no order (it subtracts 32-bit numbers into an int, so that
// 192.168.0.1 may come before 10.0.0.1): what comes out depends on what went in. Give elements in
// the kernel's order.

#include <cstdlib>
#include <vector>

#include "netlink/ipvs_types.h"

namespace ipvsproxier::inspect {

// Negative, 0 or positive.
int compare_as_ipvsadm(const netlink::VirtualServiceKey& left,
                       const netlink::VirtualServiceKey& right);
int compare_as_ipvsadm(const netlink::RealServerKey& left, const netlink::RealServerKey& right);

// Pointers to the elements, sorted by what Key(element) says. What qsort makes of it is part of the
// order: the C library's is a merge sort for these sizes, and a comparison that is no order is
// defined by nothing else. Sorting pointers keeps the elements whole.
template <auto Key, typename T>
std::vector<const T*> order_of_ipvsadm(const std::vector<T>& elements) {
  std::vector<const T*> order;
  order.reserve(elements.size());
  for (const auto& element : elements) order.push_back(&element);
  if (order.empty()) return order;  // qsort takes no null pointer
  std::qsort(order.data(), order.size(), sizeof(const T*), [](const void* left, const void* right) {
    return compare_as_ipvsadm(Key(**static_cast<const T* const*>(left)),
                              Key(**static_cast<const T* const*>(right)));
  });
  return order;
}

}  // namespace ipvsproxier::inspect

#pragma once

// ipvsadm's (1.31) order of output. Pure, any thread.
//
// ipvsadm sorts with a comparison that is no order: it subtracts 32-bit numbers into an int, so
// 192.168.0.1 may come before 10.0.0.1. The result therefore depends on the input order: pass
// elements in the kernel's order.

#include <cstdlib>
#include <vector>

#include "netlink/ipvs/ipvs_types.h"

namespace ipvsproxier::ctl {

// Negative, 0 or positive.
int compare_as_ipvsadm(const netlink::VirtualServiceKey& left,
                       const netlink::VirtualServiceKey& right);
int compare_as_ipvsadm(const netlink::RealServerKey& left, const netlink::RealServerKey& right);

// Pointers to the elements, sorted by Key(element) with qsort, as ipvsadm does: with a comparison
// that is no order, only the algorithm (a merge sort in the C library for these sizes) defines the
// result. Sorts pointers, because qsort would copy elements bytewise.
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

}  // namespace ipvsproxier::ctl

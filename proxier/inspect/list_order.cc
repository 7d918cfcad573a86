#include "proxier/inspect/list_order.h"

#include <cstring>

namespace ipvsproxier::inspect {

using netlink::IpAddress;

namespace {

// The difference as a C program gets it that subtracts unsigned numbers into an int.
int wrapped_difference(std::uint32_t left, std::uint32_t right) {
  return static_cast<int>(left - right);
}

// The first four bytes: of an IPv6 address too, where a service has servers of both families.
std::uint32_t v4_number(const IpAddress& address) {
  std::uint32_t number = 0;
  for (const auto byte : address.bytes().first(4)) number = number << 8 | byte;
  return number;
}

// Addresses of two families compare by their first four bytes, as ipvsadm was seen to do.
int compare_addresses(const IpAddress& left, const IpAddress& right) {
  if (left.family() == netlink::Family::ipv6 && right.family() == netlink::Family::ipv6)
    return std::memcmp(left.bytes().data(), right.bytes().data(), left.bytes().size());
  return wrapped_difference(v4_number(left), v4_number(right));
}

}  // namespace

int compare_as_ipvsadm(const netlink::VirtualServiceKey& left,
                       const netlink::VirtualServiceKey& right) {
  if (left.fwmark != right.fwmark) return wrapped_difference(left.fwmark, right.fwmark);
  if (left.address.family() != right.address.family())
    return left.address.family() < right.address.family() ? -1 : 1;
  if (left.protocol != right.protocol) return left.protocol < right.protocol ? -1 : 1;
  if (const int order = compare_addresses(left.address, right.address); order != 0) return order;
  return static_cast<int>(left.port) - static_cast<int>(right.port);
}

int compare_as_ipvsadm(const netlink::RealServerKey& left, const netlink::RealServerKey& right) {
  if (const int order = compare_addresses(left.address, right.address); order != 0) return order;
  return static_cast<int>(left.port) - static_cast<int>(right.port);
}

}  // namespace ipvsproxier::inspect

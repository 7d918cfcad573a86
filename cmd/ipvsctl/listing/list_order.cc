#include "cmd/ipvsctl/listing/list_order.h"

namespace ipvsproxier::ctl {

using netlink::IpAddress;

namespace {

// The difference of unsigned numbers, stored in an int, as in ipvsadm.
int wrapped_difference(std::uint32_t left, std::uint32_t right) {
  return static_cast<int>(left - right);
}

// Four bytes as a number; after an IPv4 address come zeroes, as in the kernel's union.
std::uint32_t word(const IpAddress& address, std::size_t index) {
  constexpr std::size_t kWordBytes = 4;
  const auto bytes = address.bytes();
  std::uint32_t number = 0;
  if (index * kWordBytes < bytes.size())
    for (const auto byte : bytes.subspan(index * kWordBytes, kWordBytes))
      number = number << 8 | byte;
  return number;
}

// Compares as many bytes as the left address has, also between families: a service may have servers
// of both.
int compare_addresses(const IpAddress& left, const IpAddress& right) {
  const std::size_t words = left.family() == netlink::Family::ipv6 ? 4 : 1;
  for (std::size_t i = 0; i < words; ++i)
    if (const int order = wrapped_difference(word(left, i), word(right, i)); order != 0)
      return order;
  return 0;
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

}  // namespace ipvsproxier::ctl

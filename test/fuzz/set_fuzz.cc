// Set listings: any bytes are refused or decoded into a sorted set whose elements belong to it.
// The input is a run of messages, each behind its length in two bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ipset/sets/set_codec.h"

namespace {

using namespace ipvsproxier;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Fits {
  const ipset::SetSpec& spec;

  bool operator()(const ipset::IpElement&) const { return spec.kind == ipset::SetKind::hash_ip; }
  bool operator()(const ipset::IpPortElement&) const {
    return spec.kind == ipset::SetKind::hash_ip_port;
  }
  bool operator()(const ipset::IpPortIpElement&) const {
    return spec.kind == ipset::SetKind::hash_ip_port_ip;
  }
  bool operator()(const ipset::IpPortNetElement& element) const {
    return spec.kind == ipset::SetKind::hash_ip_port_net &&
           element.net.length <= netlink::address_bits(element.net.family());
  }
  bool operator()(const ipset::PortElement&) const {
    return spec.kind == ipset::SetKind::bitmap_port;
  }
  bool operator()(const ipset::ServiceElement&) const { return false; }
  bool operator()(const ipset::DestinationElement&) const { return false; }
  bool operator()(const ipset::RangesElement&) const { return false; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipset::SetListing listing;
  netlink::ByteView rest(data, size);
  while (rest.size() >= 2) {
    const std::size_t length = std::min<std::size_t>(rest[0] + 256U * rest[1], rest.size() - 2);
    (void)listing.add(rest.subspan(2, length));
    rest = rest.subspan(2 + length);
  }
  if (const auto& header = listing.header()) {
    require(header->name.size() <= 31 && header->type.size() <= 31);
    // Whatever the kernel has, it is either the wanted set or differs in words.
    (void)ipset::difference(*header, ipset::SetSpec{.name = header->name});
  }
  const auto set = std::move(listing).take();
  if (!set) return 0;
  require(std::is_sorted(set->elements.begin(), set->elements.end()));
  require(std::adjacent_find(set->elements.begin(), set->elements.end()) == set->elements.end());
  for (const ipset::Element& element : set->elements) {
    require(std::visit(Fits{set->spec}, element));
    require(!to_string(element).empty());
  }
  return 0;
}

#include "ipset/sets/element_set.h"

#include <type_traits>

namespace ipvsproxier::ipset {

namespace {

constexpr std::uint8_t kIp = 0;
constexpr std::uint8_t kIpPort = 1;
constexpr std::uint8_t kIpPortIp = 2;
constexpr std::uint8_t kIpPortNet = 3;
constexpr std::uint8_t kService = 5;
constexpr std::uint8_t kDestination = 6;
static_assert(std::is_same_v<std::variant_alternative_t<kIp, Element>, IpElement>);
static_assert(std::is_same_v<std::variant_alternative_t<kIpPort, Element>, IpPortElement>);
static_assert(std::is_same_v<std::variant_alternative_t<kIpPortIp, Element>, IpPortIpElement>);
static_assert(std::is_same_v<std::variant_alternative_t<kIpPortNet, Element>, IpPortNetElement>);
static_assert(std::is_same_v<std::variant_alternative_t<kService, Element>, ServiceElement>);
static_assert(
    std::is_same_v<std::variant_alternative_t<kDestination, Element>, DestinationElement>);

// 0.0.0.0 for another family; callers check the family first.
std::uint32_t number_of(const IpAddress& address) {
  std::uint32_t number = 0;
  for (const auto byte : address.bytes().first(4)) number = number << 8U | byte;
  return number;
}

}  // namespace

std::optional<PackedElement> PackedElement::pack(const Element& element) {
  if (std::holds_alternative<RangesElement>(element)) return std::nullopt;
  PackedElement packed;
  packed.kind_ = static_cast<std::uint8_t>(element.index());
  bool fits = true;
  std::visit(
      [&](const auto& one) {
        using Kind = std::decay_t<decltype(one)>;
        const auto is_v4 = [](const IpAddress& ip) { return ip.family() == Family::ipv4; };
        if constexpr (!std::is_same_v<Kind, PortElement>) {
          fits = is_v4(one.ip);
          packed.ip_ = number_of(one.ip);
        }
        if constexpr (!std::is_same_v<Kind, IpElement>) packed.port_ = one.port;
        if constexpr (!std::is_same_v<Kind, IpElement> && !std::is_same_v<Kind, PortElement>)
          packed.protocol_ = one.protocol;
        if constexpr (std::is_same_v<Kind, IpPortIpElement>) {
          fits = fits && is_v4(one.ip2);
          packed.ip2_ = number_of(one.ip2);
        }
        if constexpr (std::is_same_v<Kind, IpPortNetElement>) {
          fits = fits && is_v4(one.net.address);
          packed.ip2_ = number_of(one.net.address);
          packed.length_ = one.net.length;
        }
        if constexpr (std::is_same_v<Kind, ServiceElement>) {
          packed.ip2_ = static_cast<std::uint32_t>(one.verdict);
          packed.length_ = one.restricted ? 1 : 0;
        }
        if constexpr (std::is_same_v<Kind, DestinationElement>) {
          fits = fits && is_v4(one.to);
          packed.ip2_ = number_of(one.to);
          packed.length_ = one.to_port;
        }
      },
      element);
  return fits ? std::optional(packed) : std::nullopt;
}

Element PackedElement::unpack() const {
  const auto ip = IpAddress::v4(ip_);
  switch (kind_) {
    case kIp:
      return IpElement{ip};
    case kIpPort:
      return IpPortElement{ip, protocol_, port_};
    case kIpPortIp:
      return IpPortIpElement{ip, protocol_, port_, IpAddress::v4(ip2_)};
    case kIpPortNet:
      return IpPortNetElement{
          ip, protocol_, port_, {IpAddress::v4(ip2_), static_cast<std::uint8_t>(length_)}};
    case kService:
      return ServiceElement{ip, protocol_, port_, static_cast<ServiceVerdict>(ip2_), length_ != 0};
    case kDestination:
      return DestinationElement{ip, protocol_, port_, IpAddress::v4(ip2_),
                                static_cast<std::uint16_t>(length_)};
    default:
      return PortElement{port_};
  }
}

bool ElementSet::insert(const Element& element) {
  const auto packed = PackedElement::pack(element);
  return packed ? packed_.insert(*packed) : others_.insert(element);
}

std::size_t ElementSet::erase(const Element& element) {
  const auto packed = PackedElement::pack(element);
  return packed ? packed_.erase(*packed) : others_.erase(element);
}

bool ElementSet::contains(const Element& element) const {
  const auto packed = PackedElement::pack(element);
  return packed ? packed_.contains(*packed) : others_.contains(element);
}

std::vector<Element> ElementSet::replaced_by(const Element& element) const {
  std::vector<Element> replaced;
  const auto first = first_of_key(element);
  const auto take = [&](const Element& one) {
    if (replaces(element, one)) replaced.push_back(one);
    return first_of_key(one) == first;
  };
  if (const auto packed = PackedElement::pack(first))
    for (auto it = packed_.lower_bound(*packed); it != packed_.end() && take(it->unpack());) ++it;
  else
    for (auto it = others_.lower_bound(first); it != others_.end() && take(*it);) ++it;
  return replaced;
}

std::size_t ElementSet::weight() const {
  auto weight = packed_.size();
  for (const auto& element : others_) weight += weight_of(element);
  return weight;
}

ElementSet::const_iterator ElementSet::begin() const {
  const_iterator it;
  it.packed_ = packed_.begin();
  it.last_packed_ = packed_.end();
  it.other_ = others_.begin();
  return it;
}

ElementSet::const_iterator ElementSet::end() const {
  const_iterator it;
  it.packed_ = it.last_packed_ = packed_.end();
  it.other_ = others_.end();
  return it;
}

}  // namespace ipvsproxier::ipset

#include "ipset/nftables/nft_set_elements.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::ByteView;
using netlink::NftElement;
using netlink::NftSetSpec;
using netlink::NftType;
using netlink::NftVerdict;
using netlink::NftVerdictCode;

constexpr std::string_view kRangesPrefix = "ranges_";
// The expressions of so many comparisons fit into a rule (NFT_RULE_MAXEXPRS: 128).
constexpr std::size_t kMostCompared = 16;
constexpr std::array kProtocols = {Protocol::tcp, Protocol::udp, Protocol::sctp};

NftType address_type(Family family) {
  return family == Family::ipv4 ? NftType::ipv4_addr : NftType::ipv6_addr;
}

std::uint32_t address_bytes(Family family) {
  return netlink::address_bits(family) / 8;
}

netlink::Bytes bytes_of(const IpAddress& address) {
  const auto bytes = address.bytes();
  return {bytes.begin(), bytes.end()};
}

netlink::Bytes port_bytes(std::uint16_t port) {
  return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff)};
}

std::uint16_t port_at(ByteView key) {
  return static_cast<std::uint16_t>(key[0] << 8 | key[1]);
}

// Of a virtual service: its data in a map.
netlink::Bytes destination_data(const IpAddress& address, std::uint16_t port) {
  netlink::Bytes data;
  netlink::append_nft_part(data, bytes_of(address));
  netlink::append_nft_part(data, port_bytes(port));
  return data;
}

netlink::Bytes service_key(const IpAddress& address, Protocol protocol, std::uint16_t port) {
  netlink::Bytes key;
  const std::uint8_t number = static_cast<std::uint8_t>(protocol);
  netlink::append_nft_part(key, bytes_of(address));
  netlink::append_nft_part(key, netlink::Bytes{number});
  netlink::append_nft_part(key, port_bytes(port));
  return key;
}

// "192.0.2.1_tcp_80" in the names of chains and sets.
std::string name_of(const RestrictedService& service) {
  auto address = service.address.to_string();
  std::ranges::replace(address, ':', '-');  // nft(8) takes no colon in a name
  return fmt::format("{}_{}_{}", address, to_lower_string(service.protocol), service.port);
}

std::optional<RestrictedService> service_named(std::string_view name) {
  const auto second = name.rfind('_');
  const auto first = second == name.npos ? second : name.rfind('_', second - 1);
  if (first == name.npos || second == 0) return std::nullopt;
  std::string text(name.substr(0, first));
  std::ranges::replace(text, '-', ':');
  const auto address = IpAddress::parse(text);
  if (!address) return std::nullopt;
  std::uint16_t port = 0;
  const auto digits = name.substr(second + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  for (const auto protocol : kProtocols)
    if (const RestrictedService service{*address, protocol, port}; name_of(service) == name)
      return service;
  return std::nullopt;
}

// By the verdict of an element that somebody else may have changed.
ServiceElement service_by(const RestrictedService& key, const NftElement& element) {
  const auto* data = element.data ? std::get_if<NftVerdict>(&*element.data) : nullptr;
  ServiceElement found{key.address, key.protocol, key.port, ServiceVerdict::foreign};
  if (data == nullptr || data->code != NftVerdictCode::go_to) return found;
  for (const bool restricted : {false, true})
    for (const auto verdict : kServiceVerdicts)
      if (const ServiceElement one{found.ip, found.protocol, found.port, verdict, restricted};
          data->chain == chain_of(one))
        return one;
  return found;
}

std::optional<Element> destination_of(const RestrictedService& service, const NftElement& element) {
  const auto* data = element.data ? std::get_if<netlink::Bytes>(&*element.data) : nullptr;
  const auto size = address_bytes(service.address.family());
  if (data == nullptr || data->size() != size + 4) return std::nullopt;
  const ByteView bytes(*data);
  const auto to = IpAddress::from_bytes(service.address.family(), bytes.first(size));
  if (!to) return std::nullopt;
  return DestinationElement{service.address, service.protocol, service.port, *to,
                            port_at(bytes.subspan(size))};
}

struct KeyWriter {
  const SetSpec& spec;

  std::optional<NftElement> operator()(const IpElement& element) const {
    if (element.ip.family() != spec.family) return std::nullopt;
    auto key = bytes_of(element.ip);
    if (spec.kind == SetKind::nft_hairpins) {
      const auto once = key;
      key.insert(key.end(), once.begin(), once.end());
    } else if (spec.kind != SetKind::nft_addresses) {
      return std::nullopt;
    }
    return NftElement{.key = std::move(key), .key_end = {}, .data = {}};
  }
  std::optional<NftElement> operator()(const PortElement& element) const {
    if (spec.kind != SetKind::nft_ports) return std::nullopt;
    return NftElement{.key = port_bytes(element.port), .key_end = {}, .data = {}};
  }
  std::optional<NftElement> operator()(const ServiceElement& element) const {
    if (spec.kind != SetKind::nft_services || element.ip.family() != spec.family)
      return std::nullopt;
    NftElement made{
        .key = service_key(element.ip, element.protocol, element.port), .key_end = {}, .data = {}};
    if (element.verdict != ServiceVerdict::foreign)
      made.data = NftVerdict{NftVerdictCode::go_to, chain_of(element)};
    return made;
  }
  std::optional<NftElement> operator()(const DestinationElement& element) const {
    if (spec.kind != SetKind::nft_destinations || element.ip.family() != spec.family ||
        element.to.family() != spec.family)
      return std::nullopt;
    return NftElement{.key = service_key(element.ip, element.protocol, element.port),
                      .key_end = {},
                      .data = destination_data(element.to, element.to_port)};
  }
  std::optional<NftElement> operator()(const auto& /*of_iptables*/) const { return std::nullopt; }
};

// The address behind the last one of a prefix; nullopt if that is the last of all.
std::optional<netlink::Bytes> behind(const IpPrefix& prefix) {
  auto bytes = bytes_of(prefix.address);
  unsigned bit = prefix.length;
  while (bit-- > 0) {
    const auto mask = static_cast<std::uint8_t>(0x80U >> bit % 8);
    auto& byte = bytes[bit / 8];
    byte = static_cast<std::uint8_t>(byte ^ mask);
    if ((byte & mask) != 0) return bytes;
  }
  return std::nullopt;
}

// The prefix that begins at `first` and ends before `end`.
std::optional<IpPrefix> prefix_between(ByteView first, const std::optional<netlink::Bytes>& end,
                                       Family family) {
  const auto address = IpAddress::from_bytes(family, first);
  if (!address) return std::nullopt;
  for (unsigned length = 0; length <= netlink::address_bits(family); ++length) {
    const auto prefix = IpPrefix::of(*address, static_cast<std::uint8_t>(length));
    if (prefix.address == *address && behind(prefix) == end) return prefix;
  }
  return std::nullopt;
}

}  // namespace

netlink::NftTableKey nft_table_of(Family family) {
  return {family == Family::ipv4 ? netlink::NftFamily::ip : netlink::NftFamily::ip6,
          std::string(kOurNftTable)};
}

NftSetSpec nft_set_of(const SetSpec& spec) {
  NftSetSpec made{.name = std::string(name_in_table(spec.name)), .fields = {}};
  const auto address = address_bytes(spec.family);
  switch (spec.kind) {
    case SetKind::nft_hairpins:
      made.key_type = netlink::nft_type({address_type(spec.family), address_type(spec.family)});
      made.key_bytes = 2 * address;
      break;
    case SetKind::nft_ports:
      made.key_type = netlink::nft_type({NftType::inet_service});
      made.key_bytes = 2;
      break;
    case SetKind::nft_services:
    case SetKind::nft_source_ranges:
    case SetKind::nft_destinations:
      made.flags = NftSetSpec::kMap;
      made.key_type = netlink::nft_type(
          {address_type(spec.family), NftType::inet_proto, NftType::inet_service});
      made.key_bytes = address + 8;
      made.data_type = netlink::kNftVerdictType;
      if (spec.kind != SetKind::nft_destinations) break;
      made.data_type = netlink::nft_type({address_type(spec.family), NftType::inet_service});
      made.data_bytes = address + 4;
      break;
    default:
      made.key_type = netlink::nft_type({address_type(spec.family)});
      made.key_bytes = address;
      break;
  }
  return made;
}

std::string chain_of(const ServiceElement& element) {
  if (!element.restricted) return std::string(chain_of(element.verdict));
  const RestrictedService service{element.ip, element.protocol, element.port};
  if (element.verdict == ServiceVerdict::keep) return ranges_name(service);
  return to_string(RestrictedChain{service, element.verdict});
}

std::optional<RestrictedService> service_of(ByteView key, Family family) {
  const auto size = address_bytes(family);
  if (key.size() != size + 8) return std::nullopt;
  const auto address = IpAddress::from_bytes(family, key.first(size));
  const auto protocol = static_cast<Protocol>(key[size]);
  const auto port = port_at(key.subspan(size + 4));
  if (!address || std::ranges::find(kProtocols, protocol) == kProtocols.end()) return std::nullopt;
  // Its padding is zero.
  if (!std::ranges::equal(service_key(*address, protocol, port), key)) return std::nullopt;
  return RestrictedService{*address, protocol, port};
}

std::optional<NftElement> nft_element_of(const SetSpec& spec, const Element& element) {
  return std::visit(KeyWriter{spec}, element);
}

std::optional<Element> element_of(const SetSpec& spec, const NftElement& element) {
  const ByteView key(element.key);
  const auto size = address_bytes(spec.family);
  switch (spec.kind) {
    case SetKind::nft_ports:
      if (key.size() != 2) return std::nullopt;
      return PortElement{port_at(key)};
    case SetKind::nft_hairpins:
      if (key.size() != 2 * size || !std::ranges::equal(key.first(size), key.subspan(size)))
        return std::nullopt;
      break;
    case SetKind::nft_addresses:
      if (key.size() != size) return std::nullopt;
      break;
    case SetKind::nft_destinations:
    case SetKind::nft_services: {
      const auto service = service_of(key, spec.family);
      if (!service) return std::nullopt;
      if (spec.kind == SetKind::nft_destinations) return destination_of(*service, element);
      return service_by(*service, element);
    }
    default:
      return std::nullopt;
  }
  const auto address = IpAddress::from_bytes(spec.family, key.first(size));
  if (!address) return std::nullopt;
  return IpElement{*address};
}

std::string ranges_name(const RestrictedService& service) {
  return std::string(kRangesPrefix) + name_of(service);
}

std::optional<RestrictedService> restricted_of(const std::string& ranges_name) {
  if (!ranges_name.starts_with(kRangesPrefix)) return std::nullopt;
  return service_named(std::string_view(ranges_name).substr(kRangesPrefix.size()));
}

std::string to_string(const RestrictedChain& chain) {
  return fmt::format("{}_{}", chain_of(chain.verdict), name_of(chain.service));
}

std::optional<RestrictedChain> restricted_chain_of(const std::string& name) {
  for (const auto verdict : kServiceVerdicts) {
    const auto prefix = std::string(chain_of(verdict)) + "_";
    if (verdict == ServiceVerdict::keep || !name.starts_with(prefix)) continue;
    if (const auto service = service_named(std::string_view(name).substr(prefix.size())))
      return RestrictedChain{*service, verdict};
  }
  return std::nullopt;
}

std::vector<Rule> rules_of(const RestrictedChain& chain) {
  return {{.target = JumpTarget{.chain = ranges_name(chain.service)}},
          {.target = JumpTarget{.chain = std::string(chain_of(chain.verdict))}}};
}

std::optional<RestrictedChain> own_chain_of(const Element& element) {
  const auto* service = std::get_if<ServiceElement>(&element);
  if (service == nullptr || !service->restricted) return std::nullopt;
  return restricted_chain_of(chain_of(*service));
}

std::vector<RestrictedChain> chains_of(const RestrictedService& service) {
  std::vector<RestrictedChain> chains;
  for (const auto verdict : kServiceVerdicts)
    if (verdict != ServiceVerdict::keep) chains.push_back({service, verdict});
  return chains;
}

NftElement restricted_element_of(const RestrictedService& service) {
  return {.key = service_key(service.address, service.protocol, service.port),
          .key_end = {},
          .data = NftVerdict{NftVerdictCode::go_to, ranges_name(service)}};
}

NftSetSpec ranges_set_of(const RestrictedService& service) {
  const auto family = service.address.family();
  return {.name = ranges_name(service),
          .flags = NftSetSpec::kInterval,
          .key_type = netlink::nft_type({address_type(family)}),
          .key_bytes = address_bytes(family),
          .fields = {}};
}

std::vector<Rule> rules_of_ranges(const RestrictedService& service, std::vector<IpPrefix> ranges) {
  const auto outermost = outermost_of(std::move(ranges));
  if (!outermost.empty() && outermost.front().length == 0) return {};
  Rule others{.target = Verdict::drop};
  if (outermost.empty() || outermost.size() > kMostCompared) {
    const auto set =
        netlink::to_string(nft_table_of(service.address.family())) + " " + ranges_name(service);
    others.matches = {SetMatch{.set = set, .directions = {Direction::src}, .negated = true}};
    return {std::move(others)};
  }
  others.source = SourceMatch{.prefix = outermost.front(), .negated = true};
  if (outermost.size() > 1)
    others.matches = {OutsideMatch{{outermost.begin() + 1, outermost.end()}}};
  return {std::move(others)};
}

std::vector<IpPrefix> outermost_of(std::vector<IpPrefix> prefixes) {
  // A prefix comes before those within it.
  const auto by_place = [](const IpPrefix& one, const IpPrefix& other) {
    return std::pair(one.address, one.length) < std::pair(other.address, other.length);
  };
  std::ranges::sort(prefixes, by_place);
  std::vector<IpPrefix> outermost;
  for (const auto& prefix : prefixes)
    if (outermost.empty() || !outermost.back().contains(prefix.address))
      outermost.push_back(prefix);
  return outermost;
}

std::vector<NftElement> intervals_of(std::vector<IpPrefix> prefixes) {
  std::vector<NftElement> intervals;
  for (const auto& prefix : outermost_of(std::move(prefixes))) {
    intervals.push_back({.key = bytes_of(prefix.address), .key_end = {}, .data = {}});
    if (auto end = behind(prefix))
      intervals.push_back(
          {.key = *std::move(end), .key_end = {}, .interval_end = true, .data = {}});
  }
  return intervals;
}

std::optional<std::vector<IpPrefix>> prefixes_of(std::span<const NftElement> intervals,
                                                 Family family) {
  // At one key the end of an interval comes before the beginning of the next one.
  std::vector<const NftElement*> sorted;
  for (const auto& element : intervals) sorted.push_back(&element);
  std::ranges::sort(sorted, [](const NftElement* one, const NftElement* other) {
    return std::pair(one->key, !one->interval_end) < std::pair(other->key, !other->interval_end);
  });
  std::vector<IpPrefix> prefixes;
  const NftElement* first = nullptr;
  const auto close = [&](const std::optional<netlink::Bytes>& end) {
    if (first == nullptr) return end.has_value();  // the end of nothing: before the first interval
    const auto prefix = prefix_between(first->key, end, family);
    if (prefix) prefixes.push_back(*prefix);
    first = nullptr;
    return prefix.has_value();
  };
  for (const auto* element : sorted) {
    const bool has_place = element->key.size() == address_bytes(family);
    if (!has_place || ((first != nullptr || element->interval_end) && !close(element->key)))
      return std::nullopt;
    if (!element->interval_end) first = element;
  }
  if (first != nullptr && !close(std::nullopt)) return std::nullopt;
  return prefixes;
}

}  // namespace ipvsproxier::ipset

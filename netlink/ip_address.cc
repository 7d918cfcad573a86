#include "netlink/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>

#include <fmt/compile.h>
#include <fmt/format.h>

#include "netlink/text.h"

namespace ipvsproxier::netlink {

std::string_view to_string(Family family) {
  return family == Family::ipv4 ? "IPv4" : "IPv6";
}

std::string_view to_string(Protocol protocol) {
  switch (protocol) {
    case Protocol::tcp:
      return "TCP";
    case Protocol::udp:
      return "UDP";
    case Protocol::sctp:
      return "SCTP";
  }
  return "?";
}

std::string_view to_lower_string(Protocol protocol) {
  switch (protocol) {
    case Protocol::tcp:
      return "tcp";
    case Protocol::udp:
      return "udp";
    case Protocol::sctp:
      return "sctp";
  }
  return "?";
}

std::optional<Protocol> parse_protocol(std::string_view text) {
  for (auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp})
    if (text == to_string(protocol)) return protocol;
  return std::nullopt;
}

namespace {

// A decimal number up to `max`; digits only, nothing after them.
std::optional<unsigned> number_up_to(std::string_view text, unsigned max) {
  const auto value = netlink::parse_number<unsigned>(text);
  return value && *value <= max ? value : std::nullopt;
}

std::optional<IpAddress> parse_v4(std::string_view text) {
  std::uint32_t value = 0;
  for (int octet = 0; octet < 4; ++octet) {
    const auto dot = octet < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return std::nullopt;
    const auto number = number_up_to(text.substr(0, dot), 255);
    if (!number) return std::nullopt;
    value = value << 8 | *number;
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return IpAddress::v4(value);
}

}  // namespace

IpAddress IpAddress::v4(std::uint32_t host_order) {
  IpAddress result;
  for (std::size_t i = 0; i < 4; ++i)
    result.bytes_[i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  return result;
}

std::optional<IpAddress> IpAddress::from_bytes(Family family, std::span<const std::uint8_t> bytes) {
  if (bytes.size() != address_bits(family) / 8U) return std::nullopt;
  IpAddress result;
  result.family_ = family;
  std::copy(bytes.begin(), bytes.end(), result.bytes_.begin());
  return result;
}

IpAddress IpAddress::any(Family family) {
  IpAddress result;
  result.family_ = family;
  return result;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.find(':') == std::string_view::npos) return parse_v4(text);
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, std::string(text).c_str(), bytes.data()) != 1) return std::nullopt;
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), bytes.begin()))
    return from_bytes(Family::ipv4, std::span(bytes).subspan(12));
  return from_bytes(Family::ipv6, bytes);
}

bool IpAddress::is_any() const {
  return *this == any(family_);
}

bool IpAddress::is_loopback() const {
  if (family_ == Family::ipv4) return bytes_[0] == 127;
  return bytes_[15] == 1 &&
         std::all_of(bytes_.begin(), bytes_.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

bool IpAddress::is_link_local() const {
  if (family_ == Family::ipv4) return bytes_[0] == 169 && bytes_[1] == 254;
  return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

// IPv4 without inet_ntop(), which takes three times as long: listings hold very many addresses.
std::string IpAddress::to_string() const {
  if (family_ == Family::ipv4)
    return fmt::format(FMT_COMPILE("{}.{}.{}.{}"), bytes_[0], bytes_[1], bytes_[2], bytes_[3]);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, bytes_.data(), text.data(), text.size());
  return text.data();
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  const bool long_form = text.find(':') != std::string_view::npos;
  const auto length =
      number_up_to(text.substr(slash + 1), address_bits(long_form ? Family::ipv6 : Family::ipv4));
  if (!length) return std::nullopt;
  const auto bits = static_cast<std::uint8_t>(*length);
  if (!long_form || address->family() == Family::ipv6) return of(*address, bits);
  // The length of an IPv4-mapped address counts its 128 bits, as in Go: "::ffff:10.0.0.0/104" is
  // 10.0.0.0/8, and "::ffff:10.0.0.0/24" is ::/24.
  constexpr std::uint8_t kMappedBits = 96;
  if (bits >= kMappedBits) return of(*address, static_cast<std::uint8_t>(bits - kMappedBits));
  constexpr std::array<std::uint8_t, 16> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return of(*IpAddress::from_bytes(Family::ipv6, kMapped), bits);
}

IpPrefix IpPrefix::of(const IpAddress& address, std::uint8_t length) {
  std::array<std::uint8_t, 16> bytes{};
  const auto from = address.bytes();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const int kept = std::clamp(static_cast<int>(length) - static_cast<int>(8 * i), 0, 8);
    bytes[i] = static_cast<std::uint8_t>(from[i] & (0xff00 >> kept));
  }
  return {*IpAddress::from_bytes(address.family(), std::span(bytes).first(from.size())), length};
}

bool IpPrefix::contains(const IpAddress& other) const {
  return other.family() == family() && of(other, length).address == address;
}

std::string IpPrefix::to_string() const {
  return fmt::format("{}/{}", address.to_string(), length);
}

std::string to_string(const IpAddress& address, std::uint16_t port) {
  const bool v4 = address.family() == Family::ipv4;
  return fmt::format("{}{}{}:{}", v4 ? "" : "[", address.to_string(), v4 ? "" : "]", port);
}

}  // namespace ipvsproxier::netlink

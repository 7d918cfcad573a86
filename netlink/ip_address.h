#pragma once

// IpAddress and IpPrefix: 17-byte values without allocation, ordered by family, then by bytes.
// Family and Protocol are the two enumerations that all kernel tables use.

#include <endian.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ipvsproxier::netlink {

enum class Family : std::uint8_t { ipv4 = 4, ipv6 = 6 };

inline constexpr std::array<Family, 2> kFamilies = {Family::ipv4, Family::ipv6};

std::string_view to_string(Family family);  // "IPv4", "IPv6"

// Bits of an address: 32 or 128.
constexpr std::uint8_t address_bits(Family family) {
  return family == Family::ipv4 ? 32 : 128;
}

// Transport protocols of Services; values are those of the IP header (IANA).
enum class Protocol : std::uint8_t { tcp = 6, udp = 17, sctp = 132 };

std::string_view to_string(Protocol protocol);                  // "TCP"
std::string_view to_lower_string(Protocol protocol);            // "tcp"
std::optional<Protocol> parse_protocol(std::string_view text);  // "TCP", as Kubernetes spells it

class IpAddress {
 public:
  constexpr IpAddress() = default;  // 0.0.0.0

  // `host_order`: 0x0a000001 is 10.0.0.1.
  static IpAddress v4(std::uint32_t host_order);
  // The family's 4 or 16 bytes in network order; nullopt for another size.
  static std::optional<IpAddress> from_bytes(Family family, std::span<const std::uint8_t> bytes);
  // 0.0.0.0 or ::
  static IpAddress any(Family family);
  // Dotted quad (leading zeros are read as decimal, as kube-proxy reads them) or IPv6 text without
  // a zone. An IPv4-mapped IPv6 address becomes the IPv4 address, as everywhere in Kubernetes.
  static std::optional<IpAddress> parse(std::string_view text);

  Family family() const { return family_; }
  std::span<const std::uint8_t> bytes() const {
    return {bytes_.data(), static_cast<std::size_t>(address_bits(family_) / 8)};
  }
  bool is_any() const;
  bool is_loopback() const;    // 127.0.0.0/8, ::1
  bool is_link_local() const;  // 169.254.0.0/16, fe80::/10
  std::string to_string() const;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
  // Compares two 64-bit halves: address lookups are frequent, and the defaulted operator calls
  // memcmp.
  friend std::strong_ordering operator<=>(const IpAddress& a, const IpAddress& b) {
    if (a.family_ != b.family_) return a.family_ <=> b.family_;
    const auto first = a.half(0) <=> b.half(0);
    return first != 0 ? first : a.half(1) <=> b.half(1);
  }

 private:
  // The first or second 8 bytes as a number in host order.
  std::uint64_t half(std::size_t number) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + 8 * number, sizeof value);
    return be64toh(value);
  }

  Family family_ = Family::ipv4;
  std::array<std::uint8_t, 16> bytes_{};  // IPv4 uses the first four, the rest is zero
};

struct IpPrefix {
  IpAddress address;  // host bits clear
  std::uint8_t length = 0;

  // Parses "10.0.0.0/8" and clears the host bits; nullopt without a length or with one out of
  // range.
  static std::optional<IpPrefix> parse(std::string_view text);
  // The prefix of this length that contains the address.
  static IpPrefix of(const IpAddress& address, std::uint8_t length);

  Family family() const { return address.family(); }
  bool contains(const IpAddress& other) const;
  std::string to_string() const;  // always with the length

  friend auto operator<=>(const IpPrefix&, const IpPrefix&) = default;
};

// "10.0.0.1:80", "[fd00::1]:80".
std::string to_string(const IpAddress& address, std::uint16_t port);

}  // namespace ipvsproxier::netlink

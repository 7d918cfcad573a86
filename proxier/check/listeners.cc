#include "proxier/check/listeners.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "netlink/text.h"
#include "proxier/check/files.h"

namespace ipvsproxier::check {

namespace {

constexpr std::string_view kListening = "0A";
constexpr std::size_t kWord = 8;  // hexadecimal digits of 32 bits

// The kernel prints the address as numbers of 32 bits in the order of this machine.
std::optional<netlink::IpAddress> parse_address(std::string_view digits) {
  if (digits.size() != kWord && digits.size() != 4 * kWord) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < digits.size() / kWord; ++i) {
    const auto word = netlink::parse_number<std::uint32_t>(digits.substr(i * kWord, kWord), 16);
    if (!word) return std::nullopt;
    std::memcpy(bytes.data() + 4 * i, &*word, 4);
  }
  const auto family = digits.size() == kWord ? netlink::Family::ipv4 : netlink::Family::ipv6;
  return netlink::IpAddress::from_bytes(family, {bytes.data(), digits.size() / 2});
}

}  // namespace

std::vector<TcpListener> parse_tcp_table(std::string_view text) {
  std::vector<TcpListener> found;
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() < 4 || words[3] != kListening) continue;
    const auto colon = words[1].find(':');
    if (colon == std::string_view::npos) continue;
    const auto address = parse_address(words[1].substr(0, colon));
    const auto port = netlink::parse_number<std::uint16_t>(words[1].substr(colon + 1), 16);
    if (address && port) found.push_back({*address, *port});
  }
  return found;
}

bool is_in_the_way(const TcpListener& other, const TcpListener& wanted) {
  return other.port == wanted.port &&
         (other.address.is_any() || wanted.address.is_any() || other.address == wanted.address);
}

}  // namespace ipvsproxier::check

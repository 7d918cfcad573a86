#include "ipset/nftables/nft_value_words.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "ipset/nftables/foreign_steps.h"

namespace ipvsproxier::ipset {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

using netlink::NftVerdictCode;

namespace {

struct BitWord {
  std::uint32_t bit;
  std::string_view word;
};
constexpr std::array<BitWord, 5> kStateWords = {
    {{1, "invalid"}, {2, "established"}, {4, "related"}, {8, "new"}, {64, "untracked"}}};
constexpr std::array<BitWord, 5> kStatusWords = {
    {{2, "seen-reply"}, {4, "assured"}, {8, "confirmed"}, {16, "snat"}, {32, "dnat"}}};
constexpr std::array<std::string_view, 6> kTypeWords = {"unspec",    "unicast", "local",
                                                        "broadcast", "anycast", "multicast"};

std::string hex_of(const netlink::Bytes& bytes) {
  std::string text = "0x";
  for (const auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

template <std::size_t Size>
std::string bit_words(std::uint32_t bits, const std::array<BitWord, Size>& words) {
  std::string text;
  for (const auto& one : words)
    if ((bits & one.bit) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", one.word);
  return text.empty() ? fmt::format("{:#x}", bits) : text;
}

std::string protocol_words(std::uint8_t number) {
  switch (number) {
    case 1:
      return "icmp";
    case 58:
      return "ipv6-icmp";
    default:
      break;
  }
  for (const auto known : {Protocol::tcp, Protocol::udp, Protocol::sctp})
    if (number == static_cast<std::uint8_t>(known)) return std::string(to_lower_string(known));
  return std::to_string(number);
}

std::optional<std::string> address_words(netlink::Bytes bytes) {
  const auto family = bytes.size() <= 4 ? Family::ipv4 : Family::ipv6;
  const std::size_t whole = netlink::address_bits(family) / 8;
  const auto length = bytes.size() * 8;
  bytes.resize(whole);
  const auto address = IpAddress::from_bytes(family, bytes);
  if (!address) return std::nullopt;
  return length == whole * 8 ? address->to_string()
                             : fmt::format("{}/{}", address->to_string(), length);
}

// Whether nft(8) can name the link, or the links of the prefix.
bool has_name_words(std::string_view name, bool is_prefix) {
  constexpr std::size_t kMost = 15;  // IFNAMSIZ - 1
  if (name.empty() || name.size() > kMost || name.find('"') != std::string_view::npos) return false;
  if (is_prefix) return !name.ends_with('\\');
  return !name.ends_with('*') || (name.size() > 1 && name.find('\\') == std::string_view::npos);
}

// A whole name ends with a zero; without one it is how a name begins. In quotation marks nft(8)
// takes "*" at the end for any further letters, and then each "\\" only as the sign that the next
// character stands for itself. What it has no words for is in brackets.
std::string name_words(const netlink::Bytes& bytes) {
  const auto end = std::ranges::find(bytes, std::uint8_t{0});
  const bool is_prefix = end == bytes.end();
  const std::string name(bytes.begin(), end);
  if (has_name_words(name, is_prefix)) {
    if (is_prefix) return fmt::format("\"{}*\"", name);
    if (!name.ends_with('*')) return fmt::format("\"{}\"", name);
    return fmt::format("\"{}\\*\"", name.substr(0, name.size() - 1));
  }
  std::string text = "[";
  for (const char one : name) {
    const bool is_plain = std::string_view("*\\\"]").find(one) == std::string_view::npos;
    text += is_plain ? std::string(1, one) : fmt::format("\\x{:02x}", static_cast<unsigned>(one));
  }
  return text + (is_prefix ? "*]" : "]");
}

Form form_of_type(std::uint32_t type) {
  using netlink::NftType;
  switch (static_cast<NftType>(type)) {
    case NftType::ipv4_addr:
    case NftType::ipv6_addr:
      return Form::address;
    case NftType::inet_proto:
      return Form::protocol;
    case NftType::inet_service:
      return Form::port;
    case NftType::mark:
      return Form::number;
  }
  // TYPE_* of nft's src/datatype.h.
  constexpr std::uint32_t kIndex = 20;
  constexpr std::uint32_t kState = 26;
  constexpr std::uint32_t kStatus = 28;
  constexpr std::uint32_t kInterfaceName = 41;
  if (type == kIndex) return Form::number;
  if (type == kState || type == kStatus) return type == kState ? Form::state : Form::status;
  return type == kInterfaceName ? Form::name : Form::hex;
}

// Bytes of a part of a key; 0: not known.
std::uint32_t size_of_type(std::uint32_t type) {
  switch (form_of_type(type)) {
    case Form::address:
      return type == static_cast<std::uint32_t>(netlink::NftType::ipv4_addr) ? 4 : 16;
    case Form::protocol:
      return 1;
    case Form::port:
      return 2;
    case Form::number:
      return 4;
    case Form::name:
      return 16;
    default:
      return 0;
  }
}

}  // namespace

std::optional<std::uint32_t> host_number(const netlink::Bytes& bytes) {
  std::uint32_t number = 0;
  if (bytes.size() != sizeof number) return std::nullopt;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

std::string value_words(Form form, const netlink::Bytes& bytes) {
  const auto number = host_number(bytes);
  switch (form) {
    case Form::address:
      if (auto words = address_words(bytes)) return *std::move(words);
      break;
    case Form::port:
      if (bytes.size() == 2) return std::to_string(bytes[0] << 8 | bytes[1]);
      break;
    case Form::protocol:
      if (bytes.size() == 1) return protocol_words(bytes[0]);
      break;
    case Form::name:
      return name_words(bytes);
    case Form::icmp_type:
      if (bytes.size() == 1 && (bytes[0] == 8 || bytes[0] == 128)) return "echo-request";
      if (bytes.size() == 1) return std::to_string(bytes[0]);
      break;
    case Form::number:
      if (number) return fmt::format("{:#x}", *number);
      break;
    case Form::state:
      if (number) return bit_words(*number, kStateWords);
      break;
    case Form::status:
      if (number) return bit_words(*number, kStatusWords);
      break;
    case Form::type:
      if (number && *number < kTypeWords.size()) return std::string(kTypeWords[*number]);
      break;
    case Form::family:
      if (bytes == netlink::Bytes{2}) return "ipv4";
      if (bytes == netlink::Bytes{10}) return "ipv6";
      break;
    case Form::presence:
      return std::ranges::all_of(bytes, [](auto byte) { return byte == 0; }) ? "missing" : "exists";
    case Form::hex:
      break;
  }
  return hex_of(bytes);
}

bool is_flags(Form form) {
  return form == Form::state || form == Form::status;
}

std::string_view op_words(netlink::NftCompare::Op op) {
  using Op = netlink::NftCompare::Op;
  switch (op) {
    case Op::equal:
      return "";
    case Op::not_equal:
      return "!= ";
    case Op::less:
      return "< ";
    case Op::less_equal:
      return "<= ";
    case Op::greater:
      return "> ";
    case Op::greater_equal:
      return ">= ";
  }
  return "";
}

std::string verdict_words(const netlink::NftVerdict& verdict) {
  switch (verdict.code) {
    case NftVerdictCode::accept:
      return "accept";
    case NftVerdictCode::drop:
      return "drop";
    case NftVerdictCode::give_back:
      return "return";
    case NftVerdictCode::go_on:
      return "continue";
    case NftVerdictCode::no_match:
      break;
    case NftVerdictCode::jump:
      return "jump " + verdict.chain;
    case NftVerdictCode::go_to:
      return "goto " + verdict.chain;
  }
  return fmt::format("verdict {}", static_cast<std::int32_t>(verdict.code));
}

// Of what is in a set of one field. An interval ends at the next bound: an end, or the beginning of
// one that is adjacent.
std::string elements_words(const FilterSet& set) {
  std::string text = "{";
  std::size_t count = 0;
  for (const auto& element : set.elements) {
    if (element.interval_end) continue;
    if (++count > kMostListed) return text + ", ... }";
    text += count == 1 ? " " : ", ";
    text += element.key.empty() ? "*" : key_words(set.spec, element.key);
    if (!element.key_end.empty() && element.key_end != element.key)
      text += " to " + key_words(set.spec, element.key_end);
    const auto next = std::ranges::find_if(
        set.elements, [&](const netlink::NftElement& one) { return one.key > element.key; });
    if ((set.spec.flags & netlink::NftSetSpec::kInterval) != 0 && element.key_end.empty())
      text += next == set.elements.end() ? " and above"
                                         : " to before " + key_words(set.spec, next->key);
    if (const auto* verdict =
            element.data ? std::get_if<netlink::NftVerdict>(&*element.data) : nullptr)
      text += " : " + verdict_words(*verdict);
  }
  return text + " }";
}

std::string key_words(const netlink::NftSetSpec& set, const netlink::Bytes& key) {
  std::vector<std::uint32_t> types;
  for (auto rest = set.key_type; rest != 0; rest >>= 6) types.insert(types.begin(), rest & 0x3f);
  if (types.size() <= 1) return value_words(form_of_type(set.key_type), key);
  std::string text;
  std::size_t at = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto size = i < set.fields.size() ? set.fields[i] : size_of_type(types[i]);
    if (size == 0 || at + size > key.size()) return hex_of(key);
    const auto begin = key.begin() + static_cast<std::ptrdiff_t>(at);
    text += (text.empty() ? "" : " . ") +
            value_words(form_of_type(types[i]), netlink::Bytes(begin, begin + size));
    at += (size + 3) / 4 * 4;
  }
  return text;
}

}  // namespace ipvsproxier::ipset

#include "netlink/nl_codec.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

namespace ipvsproxier::netlink {

static_assert(kMessageHeaderSize == sizeof(nlmsghdr));
static_assert(kAttributeHeaderSize == sizeof(nlattr));
static_assert(kGenericHeaderSize == sizeof(genlmsghdr));
static_assert(kAttributeTypeMask == static_cast<std::uint16_t>(NLA_TYPE_MASK));

namespace {

constexpr std::size_t kUsualSize = 192;  // bytes; most requests then need one allocation
constexpr std::array kFamilyPolicy = {AttrRule{CTRL_ATTR_FAMILY_ID, AttrKind::u16}};

template <typename T>
T to_network(T value) {
  if constexpr (std::endian::native == std::endian::big) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
  if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

template <typename T>
std::optional<T> load(std::optional<ByteView> bytes) {
  if (!bytes || bytes->size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes->data(), sizeof(T));
  return value;
}

bool obeys(const AttrRule& rule, ByteView value) {
  switch (rule.kind) {
    case AttrKind::u8:
      return value.size() == 1;
    case AttrKind::u16:
      return value.size() == 2;
    case AttrKind::u32:
      return value.size() == 4;
    case AttrKind::u64:
      return value.size() == 8;
    case AttrKind::string: {
      const auto nul = std::find(value.begin(), value.end(), std::uint8_t{0});
      return nul != value.end() && nul - value.begin() <= rule.max;
    }
    case AttrKind::bytes:
      return value.size() >= rule.min && value.size() <= rule.max;
    case AttrKind::nested:
      return true;
  }
  return false;
}

}  // namespace

MessageWriter::MessageWriter(std::uint16_t type, std::uint16_t flags, ByteView family_header) {
  bytes_.resize(kUsualSize);
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST);
  std::memcpy(extend(sizeof header), &header, sizeof header);
  if (!family_header.empty())
    std::memcpy(extend(family_header.size()), family_header.data(), family_header.size());
}

// Appends `size` bytes and the zeros that pad them.
std::uint8_t* MessageWriter::extend(std::size_t size) {
  const auto start = size_;
  size_ += netlink_align(size);
  if (size_ > bytes_.size()) bytes_.resize(std::max(size_, 2 * bytes_.size()));
  return bytes_.data() + start;
}

// Appends an attribute header and space for the value.
std::uint8_t* MessageWriter::attribute(std::uint16_t type, std::size_t size) {
  const nlattr header{static_cast<std::uint16_t>(sizeof(nlattr) + size), type};
  auto* const out = extend(sizeof header + size);
  std::memcpy(out, &header, sizeof header);
  return out + sizeof header;
}

template <typename T>
void MessageWriter::put_number(std::uint16_t type, T value) {
  std::memcpy(attribute(type, sizeof value), &value, sizeof value);
}

void MessageWriter::put_bytes(std::uint16_t type, ByteView value) {
  auto* const out = attribute(type, value.size());
  if (!value.empty()) std::memcpy(out, value.data(), value.size());
}

void MessageWriter::put_u8(std::uint16_t type, std::uint8_t value) {
  put_number(type, value);
}

void MessageWriter::put_u16(std::uint16_t type, std::uint16_t value) {
  put_number(type, value);
}

void MessageWriter::put_be16(std::uint16_t type, std::uint16_t value) {
  put_number(type, to_network(value));
}

void MessageWriter::put_u32(std::uint16_t type, std::uint32_t value) {
  put_number(type, value);
}

void MessageWriter::put_be32(std::uint16_t type, std::uint32_t value) {
  put_number(type, to_network(value));
}

void MessageWriter::put_be64(std::uint16_t type, std::uint64_t value) {
  put_number(type, to_network(value));
}

void MessageWriter::put_string(std::uint16_t type, std::string_view value) {
  auto* const out = attribute(type, value.size() + 1);
  if (!value.empty()) std::memcpy(out, value.data(), value.size());
}

MessageWriter::Nest MessageWriter::nest(std::uint16_t type) {
  const auto start = size_;
  attribute(static_cast<std::uint16_t>(type | NLA_F_NESTED), 0);
  return Nest(*this, start);
}

void MessageWriter::close(std::size_t start) {
  const auto length = static_cast<std::uint16_t>(size_ - start);
  std::memcpy(bytes_.data() + start, &length, sizeof length);
}

Bytes MessageWriter::take() && {
  const auto length = static_cast<std::uint32_t>(size_);
  std::memcpy(bytes_.data(), &length, sizeof length);
  bytes_.resize(size_);
  return std::move(bytes_);
}

std::optional<ByteView> take_attribute(ByteView& attributes, std::uint16_t& type) {
  nlattr header;
  if (attributes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, attributes.data(), sizeof header);
  if (header.nla_len < sizeof header || header.nla_len > attributes.size()) return std::nullopt;
  type = static_cast<std::uint16_t>(header.nla_type & kAttributeTypeMask);
  const ByteView value = attributes.first(header.nla_len).subspan(sizeof header);
  attributes = attributes.subspan(std::min(netlink_align(header.nla_len), attributes.size()));
  return value;
}

Result<AttrReader> AttrReader::parse(ByteView attributes, std::span<const AttrRule> policy) {
  AttrReader reader(policy.first(std::min(policy.size(), kMaxRules)));
  auto expected = reader.policy_.begin();
  while (!attributes.empty()) {
    nlattr header;
    if (attributes.size() < sizeof header)
      return malformed(fmt::format("{} bytes where an attribute should be", attributes.size()));
    std::memcpy(&header, attributes.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > attributes.size())
      return malformed(
          fmt::format("attribute of {} bytes with {} left", header.nla_len, attributes.size()));
    const auto type = static_cast<std::uint16_t>(header.nla_type & kAttributeTypeMask);
    const auto value = attributes.first(header.nla_len).subspan(sizeof header);
    // Attributes mostly come in the order of the policy.
    const auto rule = expected != reader.policy_.end() && expected->type == type
                          ? expected
                          : std::ranges::find(reader.policy_, type, &AttrRule::type);
    if (rule != reader.policy_.end()) {
      expected = std::next(rule);
      if (!obeys(*rule, value))
        return malformed(
            fmt::format("attribute {} has {} bytes that break its policy", type, value.size()));
      reader.values_[static_cast<std::size_t>(rule - reader.policy_.begin())] = value;
    }
    attributes = attributes.subspan(std::min(netlink_align(header.nla_len), attributes.size()));
  }
  return reader;
}

std::optional<ByteView> AttrReader::find(std::uint16_t type, AttrKind kind) const {
  const auto rule = std::ranges::find(policy_, type, &AttrRule::type);
  if (rule == policy_.end() || rule->kind != kind) return std::nullopt;
  return values_[static_cast<std::size_t>(rule - policy_.begin())];
}

bool AttrReader::has(std::uint16_t type) const {
  const auto rule = std::ranges::find(policy_, type, &AttrRule::type);
  return rule != policy_.end() && values_[static_cast<std::size_t>(rule - policy_.begin())];
}

std::optional<std::uint8_t> AttrReader::u8(std::uint16_t type) const {
  return load<std::uint8_t>(find(type, AttrKind::u8));
}

std::optional<std::uint16_t> AttrReader::u16(std::uint16_t type) const {
  return load<std::uint16_t>(find(type, AttrKind::u16));
}

std::optional<std::uint16_t> AttrReader::be16(std::uint16_t type) const {
  const auto value = u16(type);
  if (!value) return std::nullopt;
  return to_network(*value);
}

std::optional<std::uint32_t> AttrReader::u32(std::uint16_t type) const {
  return load<std::uint32_t>(find(type, AttrKind::u32));
}

std::optional<std::uint32_t> AttrReader::be32(std::uint16_t type) const {
  const auto value = u32(type);
  if (!value) return std::nullopt;
  return to_network(*value);
}

std::optional<std::uint64_t> AttrReader::u64(std::uint16_t type) const {
  return load<std::uint64_t>(find(type, AttrKind::u64));
}

std::optional<std::uint64_t> AttrReader::be64(std::uint16_t type) const {
  const auto value = u64(type);
  if (!value) return std::nullopt;
  return to_network(*value);
}

std::optional<std::string_view> AttrReader::string(std::uint16_t type) const {
  const auto value = find(type, AttrKind::string);
  if (!value) return std::nullopt;
  const auto nul = std::find(value->begin(), value->end(), std::uint8_t{0});
  return std::string_view(reinterpret_cast<const char*>(value->data()),
                          static_cast<std::size_t>(nul - value->begin()));
}

std::optional<ByteView> AttrReader::bytes(std::uint16_t type) const {
  return find(type, AttrKind::bytes);
}

std::optional<ByteView> AttrReader::nested(std::uint16_t type) const {
  return find(type, AttrKind::nested);
}

Result<std::optional<MessageView>> take_message(ByteView& datagram) {
  if (datagram.empty()) return std::optional<MessageView>{};
  nlmsghdr header;
  if (datagram.size() < sizeof header)
    return malformed(fmt::format("{} bytes where a message should be", datagram.size()));
  std::memcpy(&header, datagram.data(), sizeof header);
  if (header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size())
    return malformed(
        fmt::format("message of {} bytes with {} left", header.nlmsg_len, datagram.size()));
  const MessageView message{header.nlmsg_type, header.nlmsg_flags, header.nlmsg_seq,
                            datagram.first(header.nlmsg_len).subspan(sizeof header),
                            header.nlmsg_pid};
  datagram = datagram.subspan(std::min(netlink_align(header.nlmsg_len), datagram.size()));
  return std::optional<MessageView>{message};
}

Bytes encode_get_family(std::string_view name) {
  genlmsghdr header{};
  header.cmd = CTRL_CMD_GETFAMILY;
  header.version = 1;
  MessageWriter out(GENL_ID_CTRL, 0, bytes_of(header));
  out.put_string(CTRL_ATTR_FAMILY_NAME, name);
  return std::move(out).take();
}

Result<std::uint16_t> decode_family_id(ByteView payload) {
  if (payload.size() < kGenericHeaderSize) return malformed("a controller reply without header");
  const auto in = AttrReader::parse(payload.subspan(kGenericHeaderSize), kFamilyPolicy);
  if (!in) return in.error();
  const auto id = in->u16(CTRL_ATTR_FAMILY_ID);
  if (!id) return malformed("a controller reply without a family id");
  return *id;
}

}  // namespace ipvsproxier::netlink

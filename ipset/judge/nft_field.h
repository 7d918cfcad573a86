#pragma once

// What expressions of nf_tables find in a packet: its headers, what the kernel knows of it, its
// connection, the types of its addresses. Pure except for the facts; any thread. Used by
// nft_judge.h.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "ipset/judge/packet.h"
#include "ipset/judge/rule_judge.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ipset {

// As many bytes as all registers hold, in place: a rule loads some fields for each packet.
class FieldBytes {
 public:
  static constexpr std::size_t kMost = 64;

  FieldBytes() = default;
  // More than kMost are cut off.
  explicit FieldBytes(std::size_t size, std::uint8_t byte = 0) : size_(std::min(size, kMost)) {
    std::fill_n(bytes_.begin(), size_, byte);
  }
  explicit FieldBytes(netlink::ByteView bytes) : size_(std::min(bytes.size(), kMost)) {
    std::copy_n(bytes.begin(), size_, bytes_.begin());
  }
  FieldBytes(std::initializer_list<std::uint8_t> bytes)
      : FieldBytes(netlink::ByteView(bytes.begin(), bytes.size())) {}

  std::size_t size() const { return size_; }
  std::uint8_t* data() { return bytes_.data(); }
  const std::uint8_t* data() const { return bytes_.data(); }
  std::uint8_t* begin() { return data(); }
  const std::uint8_t* begin() const { return data(); }
  std::uint8_t* end() { return data() + size_; }
  const std::uint8_t* end() const { return data() + size_; }
  std::uint8_t& operator[](std::size_t at) { return bytes_[at]; }
  std::uint8_t operator[](std::size_t at) const { return bytes_[at]; }

  bool is(netlink::ByteView other) const {
    return other.size() == size_ && std::equal(begin(), end(), other.begin());
  }
  friend bool operator==(const FieldBytes&, const FieldBytes&) = default;

 private:
  std::array<std::uint8_t, kMost> bytes_{};
  std::size_t size_ = 0;
};

// Bytes of which each bit is known or not. Both are of the same size.
struct NftField {
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);

  FieldBytes bytes;
  FieldBytes known;  // 1 for a bit that is known

  static NftField of(netlink::ByteView bytes);   // known
  static NftField number(std::uint32_t number);  // in the host's order, known
  // In the host's order; 1 in `known` for a bit that is known.
  static NftField number(std::uint32_t number, std::uint32_t known);
  static NftField unknown(std::size_t size);

  bool is_known() const;
  // Less than 0, 0 or more than 0: how bytes `at` to `at + size` of the smallest value that the
  // field may have, or of the largest one, compare with those of `bytes`.
  int least_against(netlink::ByteView bytes, std::size_t at = 0, std::size_t size = kWhole) const;
  int most_against(netlink::ByteView bytes, std::size_t at = 0, std::size_t size = kWhole) const;
  // Whether these bytes of it are between those of both.
  Answer between(netlink::ByteView first, netlink::ByteView last, std::size_t at = 0,
                 std::size_t size = kWhole) const;
  friend bool operator==(const NftField&, const NftField&) = default;
};

// Each is nullopt where the kernel finds nothing, so that the rule does not match: a connection of
// a packet that is not tracked.
struct NftFields {
  const NodeFacts& facts;
  const Packet& packet;

  std::optional<NftField> of(const netlink::NftPayload& payload) const;
  std::optional<NftField> of(const netlink::NftMeta& meta) const;
  std::optional<NftField> of(const netlink::NftCt& ct) const;
  std::optional<NftField> of(const netlink::NftFib& fib) const;
};

}  // namespace ipvsproxier::ipset

#pragma once

// What expressions of nf_tables find in a packet: its headers, what the kernel knows of it, its
// connection, the types of its addresses. Pure except for the facts; any thread. Used by
// nft_judge.h.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ipset/judge/packet.h"
#include "ipset/judge/rule_judge.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ipset {

// Bytes of which each bit is known or not. Both are of the same size.
struct NftField {
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);

  netlink::Bytes bytes;
  netlink::Bytes known;  // 1 for a bit that is known

  static NftField of(netlink::Bytes bytes);      // known
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

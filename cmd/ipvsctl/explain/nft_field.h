#pragma once

// What expressions of nf_tables find in a packet: its headers, what the kernel knows of it, its
// connection, its routes. Pure but for the routes; any thread. Used by nft_judge.h.

#include <cstdint>
#include <optional>

#include "cmd/ipvsctl/explain/packet.h"
#include "cmd/ipvsctl/explain/rule_judge.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ctl {

// Bytes of which each bit is known or not. Both are of the same size.
struct NftField {
  netlink::Bytes bytes;
  netlink::Bytes known;  // 1 for a bit that is known

  static NftField of(netlink::Bytes bytes);      // known
  static NftField number(std::uint32_t number);  // in the host's order, known
  static NftField unknown(std::size_t size);

  bool is_known() const;
  friend bool operator==(const NftField&, const NftField&) = default;
};

// Each is nullopt where the kernel finds nothing, so that the rule does not match: a connection of
// a packet that is not tracked.
struct NftFields {
  const NodeReading& node;
  const Packet& packet;
  const RuleJudge& judge;

  std::optional<NftField> of(const netlink::NftPayload& payload) const;
  std::optional<NftField> of(const netlink::NftMeta& meta) const;
  std::optional<NftField> of(const netlink::NftCt& ct) const;
  std::optional<NftField> of(const netlink::NftFib& fib) const;
};

}  // namespace ipvsproxier::ctl

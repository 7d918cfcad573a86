#pragma once

// Expressions that rules of other programs have and ours do not: read to judge what becomes of a
// packet, never written. Pure; any thread. Sources: net/netfilter/nft_*.c (6.1).

#include <compare>
#include <cstdint>
#include <string>
#include <variant>

#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::netlink {

// NFT_META_*: keys of NftMeta.
enum class NftMetaKey : std::uint32_t {
  protocol = 1,  // the Ethernet type, in network order
  mark = 3,
  in_index = 4,
  out_index = 5,
  in_name = 6,
  out_name = 7,
  family = 15,
  l4_protocol = 16,
};

// NFT_CT_*: keys of NftCt.
enum class NftCtKey : std::uint32_t {
  state = 0,
  direction = 1,
  status = 2,
  mark = 3,
  l3_protocol = 7,
  source = 8,
  destination = 9,
  protocol = 10,
  source_port = 11,
  destination_port = 12,
  source_ip = 19,
  destination_ip = 20,
  source_ip6 = 21,
  destination_ip6 = 22,
};

// NFT_FIB_RESULT_* and NFTA_FIB_F_*, besides those of NftFib.
inline constexpr std::uint32_t kNftFibLink = 1;
inline constexpr std::uint32_t kNftFibLinkName = 2;
inline constexpr std::uint32_t kNftFibMark = 4;
inline constexpr std::uint32_t kNftFibInLink = 8;
inline constexpr std::uint32_t kNftFibOutLink = 16;
inline constexpr std::uint32_t kNftFibPresent = 32;

// NFT_REJECT_ICMPX_UNREACH: a code that stands for one of either family.
inline constexpr std::uint32_t kNftRejectEither = 2;
enum class NftEitherReject : std::uint8_t { no_route, port, host, prohibited };

// Whether the register is between both, or with `outside` is not.
struct NftRange {
  std::uint32_t source = 0;
  bool outside = false;
  Bytes from;
  Bytes to;
  friend bool operator==(const NftRange&, const NftRange&) = default;
};

// Turns numbers of `unit` bytes from the host's order into that of the network, or back.
struct NftByteOrder {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint32_t size = 0;  // bytes
  std::uint32_t unit = 0;
  friend bool operator==(const NftByteOrder&, const NftByteOrder&) = default;
};

// Sets the mark of the connection.
struct NftSetConnectionMark {
  std::uint32_t source = 0;
  friend bool operator==(const NftSetConnectionMark&, const NftSetConnectionMark&) = default;
};

struct NftNoTrack {
  friend bool operator==(const NftNoTrack&, const NftNoTrack&) = default;
};

// A match or a target of x_tables, as iptables-nft writes them.
struct NftExtension {
  bool is_target = false;
  std::string name;  // "conntrack"
  std::uint8_t revision = 0;
  Bytes data;
  friend bool operator==(const NftExtension&, const NftExtension&) = default;
};

// Later packets of the connection may take a short cut past all chains.
struct NftFlowOffload {
  std::string flowtable;
  friend bool operator==(const NftFlowOffload&, const NftFlowOffload&) = default;
};

// An expression that changes nothing that decides about the packet: log, a named counter.
struct NftWithoutEffect {
  friend bool operator==(const NftWithoutEffect&, const NftWithoutEffect&) = default;
};

// One that depends on time, chance or the past (limit, quota, numgen), or that is not understood:
// any register may be another behind it. Unless it only asks, the packet may have ended there.
struct NftUnforeseen {
  bool only_asks = false;
  friend bool operator==(const NftUnforeseen&, const NftUnforeseen&) = default;
};

using NftForeignExpression =
    std::variant<NftUnforeseen, NftRange, NftByteOrder, NftSetConnectionMark, NftNoTrack,
                 NftExtension, NftFlowOffload, NftMasquerade, NftWithoutEffect>;

// The use of an object of this type (NFT_OBJECT_*).
NftForeignExpression foreign_object(std::uint32_t type);

// Any bytes give a result.
NftForeignExpression read_foreign_expression(const NftOtherExpression& expression);

}  // namespace ipvsproxier::netlink

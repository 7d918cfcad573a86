#include "netlink/nftables/nftables_foreign.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "netlink/nftables/nftables_expressions.h"

namespace ipvsproxier::netlink {

namespace {

constexpr std::uint16_t kAnyBytes = 0xffff;
constexpr std::array kForeignPolicy = {
    AttrRule{1, AttrKind::bytes, 0, kAnyBytes},  AttrRule{2, AttrKind::bytes, 0, kAnyBytes},
    AttrRule{3, AttrKind::bytes, 0, kAnyBytes},  AttrRule{4, AttrKind::bytes, 0, kAnyBytes},
    AttrRule{5, AttrKind::bytes, 0, kAnyBytes},  AttrRule{6, AttrKind::bytes, 0, kAnyBytes},
    AttrRule{7, AttrKind::bytes, 0, kAnyBytes},  AttrRule{8, AttrKind::bytes, 0, kAnyBytes},
    AttrRule{9, AttrKind::bytes, 0, kAnyBytes},  AttrRule{10, AttrKind::bytes, 0, kAnyBytes},
    AttrRule{11, AttrKind::bytes, 0, kAnyBytes},
};

static_assert(static_cast<unsigned>(NftMetaKey::mark) == unsigned{NFT_META_MARK});
static_assert(static_cast<unsigned>(NftMetaKey::out_name) == unsigned{NFT_META_OIFNAME});
static_assert(static_cast<unsigned>(NftMetaKey::family) == unsigned{NFT_META_NFPROTO});
static_assert(static_cast<unsigned>(NftCtKey::mark) == unsigned{NFT_CT_MARK});
static_assert(static_cast<unsigned>(NftCtKey::destination_port) == unsigned{NFT_CT_PROTO_DST});
static_assert(static_cast<unsigned>(NftCtKey::destination_ip6) == unsigned{NFT_CT_DST_IP6});
static_assert(kNftFibLinkName == unsigned{NFT_FIB_RESULT_OIFNAME});
static_assert(kNftFibPresent == unsigned{NFTA_FIB_F_PRESENT});
static_assert(kNftRejectEither == unsigned{NFT_REJECT_ICMPX_UNREACH});

// A number in network order; nullopt if it is not there.
std::optional<std::uint32_t> number_at(const AttrReader& in, std::uint16_t type) {
  const auto bytes = in.bytes(type);
  if (!bytes || bytes->size() != sizeof(std::uint32_t)) return std::nullopt;
  std::uint32_t number = 0;
  for (const auto byte : *bytes) number = number << 8 | byte;
  return number;
}

std::optional<std::string> name_at(const AttrReader& in, std::uint16_t type) {
  const auto bytes = in.bytes(type);
  if (!bytes || bytes->empty() || bytes->back() != 0) return std::nullopt;
  std::string name(bytes->begin(), bytes->end() - 1);
  if (name.find('\0') != std::string::npos) return std::nullopt;
  return name;
}

std::optional<Bytes> value_at(const AttrReader& in, std::uint16_t type) {
  const auto nest = in.bytes(type);
  if (!nest) return std::nullopt;
  auto data = decode_nft_data(*nest);
  auto* const bytes = data ? std::get_if<Bytes>(&*data) : nullptr;
  if (bytes == nullptr) return std::nullopt;
  return std::move(*bytes);
}

NftForeignExpression read_range(const AttrReader& in) {
  const auto source = number_at(in, NFTA_RANGE_SREG);
  const auto op = number_at(in, NFTA_RANGE_OP);
  auto from = value_at(in, NFTA_RANGE_FROM_DATA);
  auto to = value_at(in, NFTA_RANGE_TO_DATA);
  // NFT_RANGE_EQ is 0.
  if (!source || !from || !to || !op || *op > NFT_RANGE_NEQ) return NftUnforeseen{};
  return NftRange{*source, op == NFT_RANGE_NEQ, *std::move(from), *std::move(to)};
}

NftForeignExpression read_byte_order(const AttrReader& in) {
  const auto source = number_at(in, NFTA_BYTEORDER_SREG);
  const auto target = number_at(in, NFTA_BYTEORDER_DREG);
  const auto size = number_at(in, NFTA_BYTEORDER_LEN);
  const auto unit = number_at(in, NFTA_BYTEORDER_SIZE);
  if (!source || !target || !size || !unit) return NftUnforeseen{};
  return NftByteOrder{*source, *target, *size, *unit};
}

NftForeignExpression read_set_connection(const AttrReader& in) {
  const auto source = number_at(in, NFTA_CT_SREG);
  if (!source) return NftUnforeseen{};
  if (number_at(in, NFTA_CT_KEY) == unsigned{NFT_CT_MARK}) return NftSetConnectionMark{*source};
  return NftWithoutEffect{};
}

NftForeignExpression read_extension(const AttrReader& in, bool is_target) {
  static_assert(unsigned{NFTA_MATCH_NAME} == unsigned{NFTA_TARGET_NAME} &&
                unsigned{NFTA_MATCH_REV} == unsigned{NFTA_TARGET_REV} &&
                unsigned{NFTA_MATCH_INFO} == unsigned{NFTA_TARGET_INFO});
  auto name = name_at(in, NFTA_MATCH_NAME);
  const auto revision = number_at(in, NFTA_MATCH_REV);
  if (!name || !revision || *revision > 0xff) return NftUnforeseen{};
  const auto data = in.bytes(NFTA_MATCH_INFO).value_or(ByteView());
  return NftExtension{is_target, *std::move(name), static_cast<std::uint8_t>(*revision),
                      Bytes(data.begin(), data.end())};
}

// Fills a set for later packets; with expressions in it, it may also end the rule.
NftForeignExpression read_set_change(const AttrReader& in) {
  for (const std::uint16_t type : {NFTA_DYNSET_EXPR, NFTA_DYNSET_EXPRESSIONS, NFTA_DYNSET_FLAGS})
    if (in.has(type)) return NftUnforeseen{.only_asks = true};
  return NftWithoutEffect{};
}

constexpr std::array<std::string_view, 12> kQuestions = {"limit", "quota",  "connlimit", "numgen",
                                                         "hash",  "socket", "rt",        "osf",
                                                         "xfrm",  "tunnel", "exthdr",    "fib"};

}  // namespace

NftForeignExpression foreign_object(std::uint32_t type) {
  switch (type) {
    case NFT_OBJECT_COUNTER:
    case NFT_OBJECT_CT_HELPER:
    case NFT_OBJECT_CT_TIMEOUT:
    case NFT_OBJECT_CT_EXPECT:
    case NFT_OBJECT_SECMARK:
      return NftWithoutEffect{};
    case NFT_OBJECT_SYNPROXY:  // takes packets
      return NftUnforeseen{};
    default:
      return NftUnforeseen{.only_asks = true};
  }
}

NftForeignExpression read_foreign_expression(const NftOtherExpression& expression) {
  const std::string_view name = expression.name;
  const auto in = AttrReader::parse(expression.data, kForeignPolicy);
  if (!in) return NftUnforeseen{};
  if (name == "range") return read_range(*in);
  if (name == "byteorder") return read_byte_order(*in);
  if (name == "ct") return read_set_connection(*in);
  if (name == "match" || name == "target") return read_extension(*in, name == "target");
  if (name == "objref")
    return foreign_object(number_at(*in, NFTA_OBJREF_IMM_TYPE).value_or(NFT_OBJECT_UNSPEC));
  if (name == "dynset") return read_set_change(*in);
  if (name == "notrack") return NftNoTrack{};
  // With ports, which decide nothing about where the packet goes.
  if (name == NftMasquerade::kName) return NftMasquerade{};
  if (name == "log" || name == "last" || name == "dup") return NftWithoutEffect{};
  if (name == "exthdr" && in->has(NFTA_EXTHDR_SREG)) return NftWithoutEffect{};
  if (name == "flow_offload")
    if (auto flowtable = name_at(*in, NFTA_FLOW_TABLE_NAME))
      return NftFlowOffload{*std::move(flowtable)};
  return NftUnforeseen{.only_asks = std::ranges::find(kQuestions, name) != kQuestions.end()};
}

}  // namespace ipvsproxier::netlink

#include "ipset/nft/nft_jumps.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>

namespace ipvsproxier::ipset {

namespace {

using netlink::AttrKind;
using netlink::AttrReader;
using netlink::AttrRule;
using netlink::ByteView;
using netlink::Result;

// <linux/netfilter/nf_tables.h>: NFT_NAME_MAXLEN with its NUL.
constexpr std::uint16_t kLongestName = 255;
// <linux/netfilter.h>, which defines what <netinet/in.h> does: NFPROTO_INET.
constexpr std::uint8_t kBothFamilies = 1;

constexpr std::array kRulePolicy = {
    AttrRule{NFTA_RULE_HANDLE, AttrKind::bytes, 8, 8},
    AttrRule{NFTA_RULE_EXPRESSIONS, AttrKind::nested},
};

constexpr std::array kExpressionPolicy = {
    AttrRule{NFTA_EXPR_NAME, AttrKind::string, 0, kLongestName},
    AttrRule{NFTA_EXPR_DATA, AttrKind::nested},
};

constexpr std::array kImmediatePolicy = {AttrRule{NFTA_IMMEDIATE_DATA, AttrKind::nested}};
constexpr std::array kDataPolicy = {AttrRule{NFTA_DATA_VERDICT, AttrKind::nested}};
constexpr std::array kVerdictPolicy = {
    AttrRule{NFTA_VERDICT_CODE, AttrKind::u32},
    AttrRule{NFTA_VERDICT_CHAIN, AttrKind::string, 0, kLongestName}};

using MaybeChain = std::optional<std::string>;

// The nest `type` within `attributes`.
template <std::size_t Rows>
Result<std::optional<ByteView>> nest_in(ByteView attributes,
                                        const std::array<AttrRule, Rows>& policy,
                                        std::uint16_t type) {
  const auto reader = AttrReader::parse(attributes, policy);
  if (!reader) return reader.error();
  return reader->nested(type);
}

// The verdict that an "immediate" gives, unless it loads a value.
Result<std::optional<AttrReader>> verdict_in(ByteView immediate) {
  const auto data = nest_in(immediate, kImmediatePolicy, NFTA_IMMEDIATE_DATA);
  if (!data) return data.error();
  if (!*data) return std::optional<AttrReader>{};
  const auto nest = nest_in(**data, kDataPolicy, NFTA_DATA_VERDICT);
  if (!nest) return nest.error();
  if (!*nest) return std::optional<AttrReader>{};
  auto verdict = AttrReader::parse(**nest, kVerdictPolicy);
  if (!verdict) return verdict.error();
  return std::optional(*std::move(verdict));
}

// The chain that an expression jumps to, if any.
Result<MaybeChain> target_of(ByteView expression) {
  const auto reader = AttrReader::parse(expression, kExpressionPolicy);
  if (!reader) return reader.error();
  const auto immediate = reader->nested(NFTA_EXPR_DATA);
  if (reader->string(NFTA_EXPR_NAME) != "immediate" || !immediate) return MaybeChain{};
  const auto verdict = verdict_in(*immediate);
  if (!verdict) return verdict.error();
  const auto chain = *verdict ? (*verdict)->string(NFTA_VERDICT_CHAIN) : std::nullopt;
  return chain ? MaybeChain(*chain) : MaybeChain{};
}

std::uint8_t family_number(std::string_view family) {
  if (family == "ip") return AF_INET;
  return family == "ip6" ? AF_INET6 : kBothFamilies;
}

}  // namespace

netlink::Bytes list_rules_request(std::string_view family, std::string_view table,
                                  std::string_view chain) {
  const nfgenmsg header{family_number(family), NFNETLINK_V0, 0};
  netlink::MessageWriter writer((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETRULE, NLM_F_DUMP,
                                netlink::bytes_of(header));
  writer.put_string(NFTA_RULE_TABLE, table);
  writer.put_string(NFTA_RULE_CHAIN, chain);
  return std::move(writer).take();
}

Result<std::optional<NftJump>> decode_jump(ByteView payload) {
  if (payload.size() < sizeof(nfgenmsg)) return netlink::malformed("a rule without its header");
  const auto rule = AttrReader::parse(payload.subspan(sizeof(nfgenmsg)), kRulePolicy);
  if (!rule) return rule.error();
  const auto handle = rule->bytes(NFTA_RULE_HANDLE);
  if (!handle) return netlink::malformed("a rule without its handle");
  NftJump jump;
  for (const auto byte : *handle) jump.handle = jump.handle << 8 | byte;
  auto expressions = rule->nested(NFTA_RULE_EXPRESSIONS).value_or(ByteView{});
  while (!expressions.empty()) {
    std::uint16_t type = 0;
    const auto expression = netlink::take_attribute(expressions, type);
    if (!expression) return netlink::malformed("an expression is cut short");
    auto target = target_of(*expression);
    if (!target) return target.error();
    if (!*target) continue;
    jump.target = **std::move(target);
    return std::optional(std::move(jump));
  }
  return std::optional<NftJump>{};
}

}  // namespace ipvsproxier::ipset

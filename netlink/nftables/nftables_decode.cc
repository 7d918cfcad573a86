// The reading half of nftables_codec.h.

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "netlink/nftables/nftables_codec.h"
#include "netlink/nftables/nftables_expressions.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::netlink {

namespace {

constexpr std::uint16_t kNftName = NFT_NAME_MAXLEN;

// Every message names its table in its first attribute: NFTA_TABLE_NAME, NFTA_CHAIN_TABLE,
// NFTA_RULE_TABLE, NFTA_SET_TABLE, NFTA_SET_ELEM_LIST_TABLE, NFTA_OBJ_TABLE, NFTA_FLOWTABLE_TABLE.
// Every message about what is in a table begins with its name.
constexpr std::array kNftTablePolicy = {AttrRule{NFTA_TABLE_NAME, AttrKind::string, 0, kNftName}};
constexpr std::array kNftTableFlagsPolicy = {AttrRule{NFTA_TABLE_FLAGS, AttrKind::u32}};

constexpr std::array kNftChainPolicy = {
    AttrRule{NFTA_CHAIN_TABLE, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_CHAIN_NAME, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_CHAIN_HANDLE, AttrKind::u64},
    AttrRule{NFTA_CHAIN_HOOK, AttrKind::nested},
    AttrRule{NFTA_CHAIN_POLICY, AttrKind::u32},
    AttrRule{NFTA_CHAIN_TYPE, AttrKind::string, 0, kNftName},
};
constexpr std::array kNftHookPolicy = {
    AttrRule{NFTA_HOOK_HOOKNUM, AttrKind::u32},
    AttrRule{NFTA_HOOK_PRIORITY, AttrKind::u32},
};
constexpr std::array kNftSetPolicy = {
    AttrRule{NFTA_SET_TABLE, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_SET_NAME, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_SET_HANDLE, AttrKind::u64},
    AttrRule{NFTA_SET_FLAGS, AttrKind::u32},
    AttrRule{NFTA_SET_KEY_TYPE, AttrKind::u32},
    AttrRule{NFTA_SET_KEY_LEN, AttrKind::u32},
    AttrRule{NFTA_SET_DATA_TYPE, AttrKind::u32},
    AttrRule{NFTA_SET_DATA_LEN, AttrKind::u32},
    AttrRule{NFTA_SET_DESC, AttrKind::nested},
};
constexpr std::array kNftDescriptionPolicy = {
    AttrRule{NFTA_SET_DESC_SIZE, AttrKind::u32},
    AttrRule{NFTA_SET_DESC_CONCAT, AttrKind::nested},
};
constexpr std::array kNftFieldPolicy = {AttrRule{NFTA_SET_FIELD_LEN, AttrKind::u32}};
constexpr std::array kNftRulePolicy = {
    AttrRule{NFTA_RULE_TABLE, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_RULE_CHAIN, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_RULE_HANDLE, AttrKind::u64},
    AttrRule{NFTA_RULE_EXPRESSIONS, AttrKind::nested},
};
constexpr std::array kNftElementsPolicy = {
    AttrRule{NFTA_SET_ELEM_LIST_TABLE, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_SET_ELEM_LIST_SET, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_SET_ELEM_LIST_ELEMENTS, AttrKind::nested},
};
constexpr std::array kNftElementPolicy = {
    AttrRule{NFTA_SET_ELEM_KEY, AttrKind::nested},
    AttrRule{NFTA_SET_ELEM_KEY_END, AttrKind::nested},
    AttrRule{NFTA_SET_ELEM_FLAGS, AttrKind::u32},
    AttrRule{NFTA_SET_ELEM_DATA, AttrKind::nested},
    AttrRule{NFTA_SET_ELEM_EXPR, AttrKind::nested},
    AttrRule{NFTA_SET_ELEM_EXPRESSIONS, AttrKind::nested},
};
constexpr std::array kNftStatementPolicy = {
    AttrRule{NFTA_EXPR_NAME, AttrKind::string, 0, kNftName},
};
constexpr std::array kNftGenerationPolicy = {AttrRule{NFTA_GEN_ID, AttrKind::u32}};

constexpr std::array kNftObjectPolicy = {
    AttrRule{NFTA_OBJ_TABLE, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_OBJ_NAME, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_OBJ_TYPE, AttrKind::u32},
    AttrRule{NFTA_OBJ_DATA, AttrKind::nested},
};
constexpr std::array kNftExpectationPolicy = {
    AttrRule{NFTA_CT_EXPECT_L4PROTO, AttrKind::u8},
    AttrRule{NFTA_CT_EXPECT_DPORT, AttrKind::u16},
    AttrRule{NFTA_CT_EXPECT_TIMEOUT, AttrKind::u32},
    AttrRule{NFTA_CT_EXPECT_SIZE, AttrKind::u8},
};
constexpr std::array kNftFlowtablePolicy = {
    AttrRule{NFTA_FLOWTABLE_TABLE, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_FLOWTABLE_NAME, AttrKind::string, 0, kNftName},
    AttrRule{NFTA_FLOWTABLE_USE, AttrKind::u32},
};

constexpr std::string_view kFlowExpression = "flow_offload";

// nfgenmsg in front of the attributes.
struct NftListing {
  NftFamily family = NftFamily::unspecified;
  AttrReader in;
};

Result<NftListing> read_nft_listing(ByteView payload, std::span<const AttrRule> policy) {
  nfgenmsg header;
  if (payload.size() < sizeof header) return malformed("a message of nf_tables without its header");
  std::memcpy(&header, payload.data(), sizeof header);
  const auto in = AttrReader::parse(payload.subspan(sizeof header), policy);
  if (!in) return in.error();
  return NftListing{static_cast<NftFamily>(header.nfgen_family), *in};
}

std::string nft_text(const AttrReader& in, std::uint16_t type) {
  return std::string(in.string(type).value_or(""));
}

Result<std::optional<NftBase>> read_nft_base(const AttrReader& in) {
  const auto hook = in.nested(NFTA_CHAIN_HOOK);
  if (!hook) return std::optional<NftBase>{};
  const auto fields = AttrReader::parse(*hook, kNftHookPolicy);
  if (!fields) return fields.error();
  const auto number = fields->be32(NFTA_HOOK_HOOKNUM);
  const auto priority = fields->be32(NFTA_HOOK_PRIORITY);
  if (!number || !priority) return malformed("a base chain without hook or priority");
  return std::optional<NftBase>{NftBase{.type = nft_text(in, NFTA_CHAIN_TYPE),
                                        .hook = static_cast<NftHook>(*number),
                                        .priority = static_cast<std::int32_t>(*priority),
                                        .accepts = in.be32(NFTA_CHAIN_POLICY).value_or(1) != 0}};
}

Status read_nft_description(ByteView nest, NftSetSpec& set) {
  const auto in = AttrReader::parse(nest, kNftDescriptionPolicy);
  if (!in) return in.error();
  set.size = in->be32(NFTA_SET_DESC_SIZE).value_or(0);
  auto parts = in->nested(NFTA_SET_DESC_CONCAT).value_or(ByteView());
  while (!parts.empty()) {
    std::uint16_t type = 0;
    const auto part = take_attribute(parts, type);
    if (!part) return malformed("a part of a key that is no attribute");
    const auto fields = AttrReader::parse(*part, kNftFieldPolicy);
    if (!fields) return fields.error();
    set.fields.push_back(fields->be32(NFTA_SET_FIELD_LEN).value_or(0));
  }
  return {};
}

// The bytes of a key; `malformed` for a verdict.
Result<Bytes> read_nft_key(ByteView nest) {
  auto data = decode_nft_data(nest);
  if (!data) return data.error();
  auto* const bytes = std::get_if<Bytes>(&*data);
  if (bytes == nullptr) return malformed("a key that is a verdict");
  return std::move(*bytes);
}

// Whether a packet that finds an element with this statement may be taken for one that does not
// (nft_set_elem_update_expr(), include/net/netfilter/nf_tables.h).
bool is_question(ByteView statement) {
  const auto in = AttrReader::parse(statement, kNftStatementPolicy);
  if (!in) return true;
  const auto name = in->string(NFTA_EXPR_NAME);
  return name != "counter" && name != "last";
}

// One statement, or a list of them.
bool asks(const AttrReader& element) {
  if (const auto one = element.nested(NFTA_SET_ELEM_EXPR); one && is_question(*one)) return true;
  auto rest = element.nested(NFTA_SET_ELEM_EXPRESSIONS).value_or(ByteView());
  while (!rest.empty()) {
    std::uint16_t type = 0;
    const auto one = take_attribute(rest, type);
    if (!one || is_question(*one)) return true;
  }
  return false;
}

Result<NftElement> read_nft_element(ByteView nest) {
  const auto in = AttrReader::parse(nest, kNftElementPolicy);
  if (!in) return in.error();
  NftElement element;
  // The element for "everything else" has no key.
  if (const auto key = in->nested(NFTA_SET_ELEM_KEY)) {
    auto bytes = read_nft_key(*key);
    if (!bytes) return bytes.error();
    element.key = *std::move(bytes);
  }
  if (const auto key = in->nested(NFTA_SET_ELEM_KEY_END)) {
    auto bytes = read_nft_key(*key);
    if (!bytes) return bytes.error();
    element.key_end = *std::move(bytes);
  }
  element.interval_end =
      (in->be32(NFTA_SET_ELEM_FLAGS).value_or(0) & NFT_SET_ELEM_INTERVAL_END) != 0;
  element.asks = asks(*in);
  if (const auto nested = in->nested(NFTA_SET_ELEM_DATA)) {
    auto data = decode_nft_data(*nested);
    if (!data) return data.error();
    element.data = *std::move(data);
  }
  return element;
}

}  // namespace

Result<NftTableKey> decode_nft_table(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftTablePolicy);
  if (!listing) return listing.error();
  if (!listing->in.has(NFTA_TABLE_NAME)) return malformed("a table without a name");
  return NftTableKey{listing->family, nft_text(listing->in, NFTA_TABLE_NAME)};
}

Result<NftTableFlags> decode_nft_table_flags(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftTableFlagsPolicy);
  if (!listing) return listing.error();
  const auto flags = listing->in.be32(NFTA_TABLE_FLAGS).value_or(0);
  return NftTableFlags{.dormant = (flags & NFT_TABLE_F_DORMANT) != 0,
                       .owned = (flags & NFT_TABLE_F_OWNER) != 0};
}

Result<ListedNftChain> decode_nft_chain(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftChainPolicy);
  if (!listing) return listing.error();
  const auto& in = listing->in;
  if (!in.has(NFTA_CHAIN_TABLE) || !in.has(NFTA_CHAIN_NAME))
    return malformed("a chain without a name");
  auto base = read_nft_base(in);
  if (!base) return base.error();
  return ListedNftChain{{listing->family, nft_text(in, NFTA_CHAIN_TABLE)},
                        {nft_text(in, NFTA_CHAIN_NAME), *std::move(base)},
                        in.be64(NFTA_CHAIN_HANDLE).value_or(0)};
}

Result<ListedNftSet> decode_nft_set(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftSetPolicy);
  if (!listing) return listing.error();
  const auto& in = listing->in;
  if (!in.has(NFTA_SET_TABLE) || !in.has(NFTA_SET_NAME)) return malformed("a set without a name");
  NftSetSpec set{.name = nft_text(in, NFTA_SET_NAME),
                 .flags = in.be32(NFTA_SET_FLAGS).value_or(0),
                 .key_type = in.be32(NFTA_SET_KEY_TYPE).value_or(0),
                 .key_bytes = in.be32(NFTA_SET_KEY_LEN).value_or(0),
                 .data_type = in.be32(NFTA_SET_DATA_TYPE).value_or(0),
                 .data_bytes = in.be32(NFTA_SET_DATA_LEN).value_or(0),
                 .fields = {},
                 .size = 0};
  // The kernel says how long it makes a verdict.
  if (set.data_type == kNftVerdictType) set.data_bytes = 0;
  if (const auto description = in.nested(NFTA_SET_DESC))
    if (const auto status = read_nft_description(*description, set); !status) return status.error();
  return ListedNftSet{{listing->family, nft_text(in, NFTA_SET_TABLE)},
                      std::move(set),
                      in.be64(NFTA_SET_HANDLE).value_or(0)};
}

Result<ListedNftRule> decode_nft_rule(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftRulePolicy);
  if (!listing) return listing.error();
  const auto& in = listing->in;
  const auto handle = in.be64(NFTA_RULE_HANDLE);
  if (!in.has(NFTA_RULE_TABLE) || !in.has(NFTA_RULE_CHAIN) || !handle)
    return malformed("a rule without chain or handle");
  auto expressions = decode_nft_expressions(in.nested(NFTA_RULE_EXPRESSIONS).value_or(ByteView()));
  if (!expressions) return expressions.error();
  return ListedNftRule{{listing->family, nft_text(in, NFTA_RULE_TABLE)},
                       {nft_text(in, NFTA_RULE_CHAIN), *std::move(expressions)},
                       *handle};
}

Result<ListedNftElements> decode_nft_elements(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftElementsPolicy);
  if (!listing) return listing.error();
  const auto& in = listing->in;
  if (!in.has(NFTA_SET_ELEM_LIST_TABLE) || !in.has(NFTA_SET_ELEM_LIST_SET))
    return malformed("elements without a set");
  ListedNftElements result{{listing->family, nft_text(in, NFTA_SET_ELEM_LIST_TABLE)},
                           nft_text(in, NFTA_SET_ELEM_LIST_SET),
                           {}};
  auto rest = in.nested(NFTA_SET_ELEM_LIST_ELEMENTS).value_or(ByteView());
  while (!rest.empty()) {
    std::uint16_t type = 0;
    const auto nest = take_attribute(rest, type);
    if (!nest) return malformed("an element that is no attribute");
    auto element = read_nft_element(*nest);
    if (!element) return element.error();
    result.elements.push_back(*std::move(element));
  }
  return result;
}

Result<ListedNftExpectation> decode_nft_expectation(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftObjectPolicy);
  if (!listing) return listing.error();
  const auto& in = listing->in;
  const auto data = in.nested(NFTA_OBJ_DATA);
  if (in.be32(NFTA_OBJ_TYPE) != std::uint32_t{NFT_OBJECT_CT_EXPECT} || !data)
    return malformed("an object that is no ct expectation");
  const auto fields = AttrReader::parse(*data, kNftExpectationPolicy);
  if (!fields) return fields.error();
  return ListedNftExpectation{{listing->family, nft_text(in, NFTA_OBJ_TABLE)},
                              {.name = nft_text(in, NFTA_OBJ_NAME),
                               .protocol = fields->u8(NFTA_CT_EXPECT_L4PROTO).value_or(0),
                               .port = fields->be16(NFTA_CT_EXPECT_DPORT).value_or(0),
                               .timeout = fields->u32(NFTA_CT_EXPECT_TIMEOUT).value_or(0),
                               .size = fields->u8(NFTA_CT_EXPECT_SIZE).value_or(0)}};
}

Result<ListedNftFlowtable> decode_nft_flowtable(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftFlowtablePolicy);
  if (!listing) return listing.error();
  const auto& in = listing->in;
  if (!in.has(NFTA_FLOWTABLE_TABLE) || !in.has(NFTA_FLOWTABLE_NAME))
    return malformed("a flowtable without a name");
  return ListedNftFlowtable{{listing->family, nft_text(in, NFTA_FLOWTABLE_TABLE)},
                            nft_text(in, NFTA_FLOWTABLE_NAME),
                            in.be32(NFTA_FLOWTABLE_USE).value_or(0)};
}

std::optional<NftFlowRule> nft_flow_rule_in(ByteView payload) {
  // Others may have very many rules, few of which are worth reading.
  if (std::search(payload.begin(), payload.end(), kFlowExpression.begin(), kFlowExpression.end()) ==
      payload.end())
    return std::nullopt;
  const auto rule = decode_nft_rule(payload);
  if (!rule) return std::nullopt;
  for (const auto& expression : rule->rule.expressions) {
    const auto* const other = std::get_if<NftOtherExpression>(&expression);
    if (other == nullptr) continue;
    const auto foreign = read_foreign_expression(*other);
    if (const auto* const flow = std::get_if<NftFlowOffload>(&foreign))
      return NftFlowRule{rule->table, rule->rule.chain, flow->flowtable};
  }
  return std::nullopt;
}

bool is_about_nft_flowtable(const MessageView& notification) {
  const auto type = notification.type;
  if (NFNL_SUBSYS_ID(type) != NFNL_SUBSYS_NFTABLES) return false;
  switch (NFNL_MSG_TYPE(type)) {
    case NFT_MSG_NEWFLOWTABLE:
    case NFT_MSG_DELFLOWTABLE:
      return true;
    case NFT_MSG_NEWRULE:
    case NFT_MSG_DELRULE:
      return nft_flow_rule_in(notification.payload).has_value();
    default:
      return false;
  }
}

Result<std::uint32_t> decode_nft_generation(ByteView payload) {
  const auto listing = read_nft_listing(payload, kNftGenerationPolicy);
  if (!listing) return listing.error();
  const auto id = listing->in.be32(NFTA_GEN_ID);
  if (!id) return malformed("a generation without its number");
  return *id;
}

std::optional<std::uint32_t> nft_generation_of(const MessageView& notification) {
  const auto type = notification.type;
  if (NFNL_SUBSYS_ID(type) != NFNL_SUBSYS_NFTABLES || NFNL_MSG_TYPE(type) != NFT_MSG_NEWGEN)
    return std::nullopt;
  const auto generation = decode_nft_generation(notification.payload);
  return generation ? std::optional(*generation) : std::nullopt;
}

bool is_about_nft_base_chain(const MessageView& notification) {
  constexpr int kNew = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN;
  constexpr int kGone = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELCHAIN;
  if (notification.type != kNew && notification.type != kGone) return false;
  const auto chain = decode_nft_chain(notification.payload);
  return chain && chain->chain.base;
}

std::optional<NftTableKey> nft_table_of(const MessageView& notification) {
  // The end of a transaction has a number in the place of a name.
  const auto type = notification.type;
  if (NFNL_SUBSYS_ID(type) != NFNL_SUBSYS_NFTABLES || NFNL_MSG_TYPE(type) == NFT_MSG_NEWGEN)
    return std::nullopt;
  auto table = decode_nft_table(notification.payload);
  if (!table) return std::nullopt;
  return *std::move(table);
}

}  // namespace ipvsproxier::netlink

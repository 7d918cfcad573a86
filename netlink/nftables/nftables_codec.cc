#include "netlink/nftables/nftables_codec.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <array>
#include <bit>
#include <utility>

#include "netlink/nftables/nftables_expressions.h"

namespace ipvsproxier::netlink {

namespace {

// Elements of one message; below the 64 KiB of an attribute with room for the largest element (two
// keys of 64 bytes and a verdict with a long name).
constexpr std::size_t kElementBytes = 32 * 1024;

// What nft notes with a map for itself (NFTNL_UDATA_SET_DATABYTEORDER, 4 bytes,
// BYTEORDER_HOST_ENDIAN): without it nft lists marks with their bytes swapped.
constexpr std::array<std::uint8_t, 6> kDataInHostOrder = {1, 4, 1, 0, 0, 0};

constexpr std::uint32_t kNftDrop = 0;    // NF_DROP
constexpr std::uint32_t kNftAccept = 1;  // NF_ACCEPT

std::uint16_t nft_network_order(std::uint16_t value) {
  return std::endian::native == std::endian::big ? value : __builtin_bswap16(value);
}

MessageWriter nft_message(int message, NftFamily family, int flags) {
  const nfgenmsg header{static_cast<std::uint8_t>(family), NFNETLINK_V0, 0};
  return MessageWriter(static_cast<std::uint16_t>((NFNL_SUBSYS_NFTABLES << 8) | message),
                       static_cast<std::uint16_t>(flags), bytes_of(header));
}

Bytes frame_message(int type, std::optional<std::uint32_t> generation) {
  const nfgenmsg header{0, NFNETLINK_V0, nft_network_order(NFNL_SUBSYS_NFTABLES)};
  MessageWriter out(static_cast<std::uint16_t>(type), 0, bytes_of(header));
  if (generation) out.put_be32(NFNL_BATCH_GENID, *generation);
  return std::move(out).take();
}

// A message whose only attribute is the name of the table.
MessageWriter about_table(int message, const NftTableKey& table, int flags) {
  auto out = nft_message(message, table.family, flags);
  out.put_string(NFTA_TABLE_NAME, table.name);
  return out;
}

void put_nft_base(MessageWriter& out, const NftBase& base) {
  out.put_string(NFTA_CHAIN_TYPE, base.type);
  out.put_be32(NFTA_CHAIN_POLICY, base.accepts ? kNftAccept : kNftDrop);
  const auto hook = out.nest(NFTA_CHAIN_HOOK);
  out.put_be32(NFTA_HOOK_HOOKNUM, static_cast<std::uint32_t>(base.hook));
  out.put_be32(NFTA_HOOK_PRIORITY, static_cast<std::uint32_t>(base.priority));
}

void put_nft_description(MessageWriter& out, const NftSetSpec& set) {
  if (set.size == 0 && set.fields.empty()) return;
  const auto nest = out.nest(NFTA_SET_DESC);
  if (set.size != 0) out.put_be32(NFTA_SET_DESC_SIZE, set.size);
  if (set.fields.empty()) return;
  const auto parts = out.nest(NFTA_SET_DESC_CONCAT);
  for (const auto bytes : set.fields) {
    const auto part = out.nest(NFTA_LIST_ELEM);
    out.put_be32(NFTA_SET_FIELD_LEN, bytes);
  }
}

void put_nft_element(MessageWriter& out, const NftElement& element) {
  const auto nest = out.nest(NFTA_LIST_ELEM);
  put_nft_data(out, NFTA_SET_ELEM_KEY, element.key);
  if (!element.key_end.empty()) put_nft_data(out, NFTA_SET_ELEM_KEY_END, element.key_end);
  if (element.interval_end) out.put_be32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
  if (element.data) put_nft_data(out, NFTA_SET_ELEM_DATA, *element.data);
}

// An upper limit of what the element takes.
std::size_t size_of_element(const NftElement& element) {
  constexpr std::size_t kFrames = 80;
  auto size = kFrames + element.key.size() + element.key_end.size();
  if (!element.data) return size;
  if (const auto* const bytes = std::get_if<Bytes>(&*element.data)) return size + bytes->size();
  return size + std::get<NftVerdict>(*element.data).chain.size();
}

void append_nft_elements(int message, int flags, const NftTableKey& table, const std::string& set,
                         std::span<const NftElement> elements, std::vector<Bytes>& messages) {
  while (!elements.empty()) {
    auto out = nft_message(message, table.family, flags);
    out.put_string(NFTA_SET_ELEM_LIST_TABLE, table.name);
    out.put_string(NFTA_SET_ELEM_LIST_SET, set);
    {
      const auto nest = out.nest(NFTA_SET_ELEM_LIST_ELEMENTS);
      for (std::size_t bytes = 0; !elements.empty() && bytes < kElementBytes;) {
        bytes += size_of_element(elements.front());
        put_nft_element(out, elements.front());
        elements = elements.subspan(1);
      }
    }
    messages.push_back(std::move(out).take());
  }
}

MessageWriter about_expectation(int message, const NftTableKey& table, const std::string& name) {
  auto out = nft_message(message, table.family, 0);
  out.put_string(NFTA_OBJ_TABLE, table.name);
  out.put_string(NFTA_OBJ_NAME, name);
  out.put_be32(NFTA_OBJ_TYPE, NFT_OBJECT_CT_EXPECT);
  return out;
}

// Appends the messages of an operation.
struct NftOpWriter {
  std::uint32_t set_id;
  std::vector<Bytes>& messages;

  void add(MessageWriter out) const { messages.push_back(std::move(out).take()); }

  void operator()(const NftAddTable& op) const {
    auto out = about_table(NFT_MSG_NEWTABLE, op.table, NLM_F_CREATE);
    out.put_be32(NFTA_TABLE_FLAGS, 0);
    add(std::move(out));
  }
  void operator()(const NftDeleteTable& op) const {
    add(about_table(NFT_MSG_DELTABLE, op.table, 0));
  }
  void operator()(const NftAddChain& op) const {
    auto out = nft_message(NFT_MSG_NEWCHAIN, op.table.family, NLM_F_CREATE);
    out.put_string(NFTA_CHAIN_TABLE, op.table.name);
    out.put_string(NFTA_CHAIN_NAME, op.chain.name);
    if (op.chain.base) put_nft_base(out, *op.chain.base);
    add(std::move(out));
  }
  // Without a handle it is about all rules of the chain, without a chain about those of the table.
  void operator()(const NftFlushChain& op) const {
    auto out = nft_message(NFT_MSG_DELRULE, op.table.family, 0);
    out.put_string(NFTA_RULE_TABLE, op.table.name);
    out.put_string(NFTA_RULE_CHAIN, op.chain);
    add(std::move(out));
  }
  void operator()(const NftDeleteChain& op) const {
    auto out = nft_message(NFT_MSG_DELCHAIN, op.table.family, 0);
    out.put_string(NFTA_CHAIN_TABLE, op.table.name);
    out.put_string(NFTA_CHAIN_NAME, op.chain);
    add(std::move(out));
  }
  void operator()(const NftAddSet& op) const {
    const auto& set = op.set;
    auto out = nft_message(NFT_MSG_NEWSET, op.table.family, NLM_F_CREATE);
    out.put_string(NFTA_SET_TABLE, op.table.name);
    out.put_string(NFTA_SET_NAME, set.name);
    out.put_be32(NFTA_SET_FLAGS, set.flags);
    out.put_be32(NFTA_SET_KEY_TYPE, set.key_type);
    out.put_be32(NFTA_SET_KEY_LEN, set.key_bytes);
    if ((set.flags & NftSetSpec::kMap) != 0) {
      out.put_be32(NFTA_SET_DATA_TYPE, set.data_type);
      out.put_be32(NFTA_SET_DATA_LEN, set.data_bytes);
    }
    out.put_be32(NFTA_SET_ID, set_id);
    put_nft_description(out, set);
    if (set.data_type == static_cast<std::uint32_t>(NftType::mark))
      out.put_bytes(NFTA_SET_USERDATA, kDataInHostOrder);
    add(std::move(out));
  }
  void operator()(const NftDeleteSet& op) const {
    auto out = nft_message(NFT_MSG_DELSET, op.table.family, 0);
    out.put_string(NFTA_SET_TABLE, op.table.name);
    out.put_string(NFTA_SET_NAME, op.set);
    add(std::move(out));
  }
  void operator()(const NftAddElements& op) const {
    append_nft_elements(NFT_MSG_NEWSETELEM, NLM_F_CREATE, op.table, op.set, op.elements, messages);
  }
  void operator()(const NftDeleteElements& op) const {
    append_nft_elements(NFT_MSG_DELSETELEM, 0, op.table, op.set, op.elements, messages);
  }
  // Without elements it is about all of them.
  void operator()(const NftFlushSet& op) const {
    auto out = nft_message(NFT_MSG_DELSETELEM, op.table.family, 0);
    out.put_string(NFTA_SET_ELEM_LIST_TABLE, op.table.name);
    out.put_string(NFTA_SET_ELEM_LIST_SET, op.set);
    add(std::move(out));
  }
  void operator()(const NftAddRule& op) const {
    auto out = nft_message(NFT_MSG_NEWRULE, op.table.family, NLM_F_CREATE | NLM_F_APPEND);
    out.put_string(NFTA_RULE_TABLE, op.table.name);
    out.put_string(NFTA_RULE_CHAIN, op.rule.chain);
    put_nft_expressions(out, op.rule.expressions);
    add(std::move(out));
  }
  void operator()(const NftAddExpectation& op) const {
    const auto& object = op.expectation;
    auto out = nft_message(NFT_MSG_NEWOBJ, op.table.family, NLM_F_CREATE);
    out.put_string(NFTA_OBJ_TABLE, op.table.name);
    out.put_string(NFTA_OBJ_NAME, object.name);
    out.put_be32(NFTA_OBJ_TYPE, NFT_OBJECT_CT_EXPECT);
    {
      const auto nest = out.nest(NFTA_OBJ_DATA);
      out.put_u8(NFTA_CT_EXPECT_L4PROTO, object.protocol);
      out.put_be16(NFTA_CT_EXPECT_DPORT, object.port);
      out.put_u32(NFTA_CT_EXPECT_TIMEOUT, object.timeout);
      out.put_u8(NFTA_CT_EXPECT_SIZE, object.size);
    }
    add(std::move(out));
  }
  void operator()(const NftDeleteExpectation& op) const {
    add(about_expectation(NFT_MSG_DELOBJ, op.table, op.expectation));
  }
  void operator()(const NftDeleteRule& op) const {
    auto out = nft_message(NFT_MSG_DELRULE, op.table.family, 0);
    out.put_string(NFTA_RULE_TABLE, op.table.name);
    out.put_string(NFTA_RULE_CHAIN, op.chain);
    out.put_be64(NFTA_RULE_HANDLE, op.handle);
    add(std::move(out));
  }
};

}  // namespace

Bytes encode_nft_begin(std::optional<std::uint32_t> generation) {
  return frame_message(NFNL_MSG_BATCH_BEGIN, generation);
}

Bytes encode_nft_end() {
  return frame_message(NFNL_MSG_BATCH_END, std::nullopt);
}

void append_nft_op(const NftOp& op, std::uint32_t set_id, std::vector<Bytes>& messages) {
  std::visit(NftOpWriter{set_id, messages}, op);
}

Bytes encode_list_nft_tables(NftFamily family) {
  return nft_message(NFT_MSG_GETTABLE, family, 0).take();
}

Bytes encode_list_nft_chains(const NftTableKey& table) {
  return about_table(NFT_MSG_GETCHAIN, table, 0).take();
}

Bytes encode_list_nft_sets(const NftTableKey& table) {
  return about_table(NFT_MSG_GETSET, table, 0).take();
}

Bytes encode_list_nft_rules(const NftTableKey& table) {
  return about_table(NFT_MSG_GETRULE, table, 0).take();
}

Bytes encode_list_nft_elements(const NftTableKey& table, const std::string& set) {
  auto out = nft_message(NFT_MSG_GETSETELEM, table.family, 0);
  out.put_string(NFTA_SET_ELEM_LIST_TABLE, table.name);
  out.put_string(NFTA_SET_ELEM_LIST_SET, set);
  return std::move(out).take();
}

Bytes encode_get_nft_table(const NftTableKey& table) {
  return about_table(NFT_MSG_GETTABLE, table, 0).take();
}

Bytes encode_get_nft_set(const NftTableKey& table, const std::string& set) {
  auto out = nft_message(NFT_MSG_GETSET, table.family, 0);
  out.put_string(NFTA_SET_TABLE, table.name);
  out.put_string(NFTA_SET_NAME, set);
  return std::move(out).take();
}

Bytes encode_get_nft_expectation(const NftTableKey& table, const std::string& name) {
  return about_expectation(NFT_MSG_GETOBJ, table, name).take();
}

Bytes encode_list_nft_flowtables() {
  return nft_message(NFT_MSG_GETFLOWTABLE, NftFamily::unspecified, 0).take();
}

Bytes encode_get_nft_generation() {
  return nft_message(NFT_MSG_GETGEN, NftFamily::unspecified, 0).take();
}

}  // namespace ipvsproxier::netlink

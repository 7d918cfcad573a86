#pragma once

// nf_tables over nfnetlink: encodes transactions and listings, decodes listings. Pure; any thread.
//
//   BATCH_BEGIN | nlmsghdr | nfgenmsg family | TABLE ... | ... | BATCH_END
//
// What stands between the two is one transaction: packets see all of it or none. Every message is
// judged, and every refusal is answered; after one of them nothing of the transaction is kept
// (net/netfilter/nfnetlink.c, nfnetlink_rcv_batch()). Numbers are in network order. Source:
// net/netfilter/nf_tables_api.c (6.1). Users: NftMonitor, and the packet filter of ipset/nftables.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "netlink/nftables/nftables_types.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// The frame of a transaction. With `generation` the kernel refuses it (ERESTART) if it has another
// one by now: somebody's transaction came in between.
Bytes encode_nft_begin(std::optional<std::uint32_t> generation = std::nullopt);
Bytes encode_nft_end();

// The messages of one operation, one after the other: an attribute holds 64 KiB, so many elements
// need several. `set_id` is a number of one's own for each set that a transaction adds.
void append_nft_op(const NftOp& op, std::uint32_t set_id, std::vector<Bytes>& messages);

// Listings. Each is a dump; the elements are those of one set.
Bytes encode_list_nft_tables(NftFamily family);
Bytes encode_list_nft_chains(const NftTableKey& table);  // of all tables of the family
Bytes encode_list_nft_sets(const NftTableKey& table);
Bytes encode_list_nft_rules(const NftTableKey& table);
Bytes encode_list_nft_elements(const NftTableKey& table, const std::string& set);
// One request, one answer. For a table or set that is not there the answer is ENOENT.
Bytes encode_get_nft_table(const NftTableKey& table);
Bytes encode_get_nft_set(const NftTableKey& table, const std::string& set);
Bytes encode_get_nft_expectation(const NftTableKey& table, const std::string& name);
Bytes encode_get_nft_generation();
// The flowtables of all tables of all families.
Bytes encode_list_nft_flowtables();

// What a listing names. `payload` starts with nfgenmsg; `malformed` for bytes that break the policy
// or lack what the kernel always sends.
struct ListedNftChain {
  NftTableKey table;
  NftChainSpec chain;
  std::uint64_t handle = 0;
  friend auto operator<=>(const ListedNftChain&, const ListedNftChain&) = default;
};
struct ListedNftSet {
  NftTableKey table;
  NftSetSpec set;
  std::uint64_t handle = 0;
  friend auto operator<=>(const ListedNftSet&, const ListedNftSet&) = default;
};
struct ListedNftRule {
  NftTableKey table;
  NftRuleSpec rule;
  std::uint64_t handle = 0;
  friend bool operator==(const ListedNftRule&, const ListedNftRule&) = default;
};
struct ListedNftElements {
  NftTableKey table;
  std::string set;
  std::vector<NftElement> elements;
  friend bool operator==(const ListedNftElements&, const ListedNftElements&) = default;
};
Result<NftTableKey> decode_nft_table(ByteView payload);
Result<NftTableFlags> decode_nft_table_flags(ByteView payload);
Result<ListedNftChain> decode_nft_chain(ByteView payload);
Result<ListedNftSet> decode_nft_set(ByteView payload);
Result<ListedNftRule> decode_nft_rule(ByteView payload);
Result<ListedNftElements> decode_nft_elements(ByteView payload);
struct ListedNftExpectation {
  NftTableKey table;
  NftExpectation expectation;
  friend auto operator<=>(const ListedNftExpectation&, const ListedNftExpectation&) = default;
};
Result<ListedNftExpectation> decode_nft_expectation(ByteView payload);
struct ListedNftFlowtable {
  NftTableKey table;
  std::string name;
  std::uint32_t rules = 0;  // that add to it
  friend auto operator<=>(const ListedNftFlowtable&, const ListedNftFlowtable&) = default;
};
Result<ListedNftFlowtable> decode_nft_flowtable(ByteView payload);
// Grows by one with every transaction that changed anything in this network namespace.
Result<std::uint32_t> decode_nft_generation(ByteView payload);

// The generation that a notification of the end of a transaction tells; nullopt for others.
std::optional<std::uint32_t> nft_generation_of(const MessageView& notification);

// Whether a base chain was made, changed or removed.
bool is_about_nft_base_chain(const MessageView& notification);

// Whether a flowtable, or a rule that adds to one, was made or removed.
bool is_about_nft_flowtable(const MessageView& notification);

// The rule that a listed rule is, if it adds to a flowtable; nullopt for others and for one that
// cannot be read.
std::optional<NftFlowRule> nft_flow_rule_in(ByteView payload);

// The table that a notification is about; nullopt for one that is about none (the end of a
// transaction), is not of nf_tables, or cannot be read.
std::optional<NftTableKey> nft_table_of(const MessageView& notification);

}  // namespace ipvsproxier::netlink

#pragma once

// What nf_tables keeps, as values: tables, chains, sets with their elements, rules as lists of
// expressions, and the operations on them. Pure; any thread.
//
// A value that was written is read back equal, whichever kernel (6.1 to 6.18) lists it: what the
// kernel adds by itself is left out (handles stand beside the values). For the packet filter that
// the daemon's sync thread keeps where legacy iptables and IP sets are not there; the numbers are
// those of <linux/netfilter/nf_tables.h>.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

// NFT_TABLE_F_*.
struct NftTableFlags {
  bool dormant = false;  // packets do not meet its chains
  bool owned = false;    // the socket that made it changes it, and nobody else

  friend auto operator<=>(const NftTableFlags&, const NftTableFlags&) = default;
};

// NFPROTO_*; the kernel may list others.
enum class NftFamily : std::uint8_t {
  unspecified = 0,
  inet = 1,
  ip = 2,
  netdev = 5,
  bridge = 7,
  ip6 = 10
};

struct NftTableKey {
  NftFamily family = NftFamily::ip;
  std::string name;

  friend auto operator<=>(const NftTableKey&, const NftTableKey&) = default;
};

// NF_* and NFT_*; the kernel may list others.
enum class NftVerdictCode : std::int32_t {
  drop = 0,
  accept = 1,
  go_on = -1,     // NFT_CONTINUE
  no_match = -2,  // NFT_BREAK
  jump = -3,
  go_to = -4,
  give_back = -5,  // NFT_RETURN
};

struct NftVerdict {
  NftVerdictCode code = NftVerdictCode::accept;
  std::string chain;  // of jump and go_to

  friend auto operator<=>(const NftVerdict&, const NftVerdict&) = default;
};

// Data of an element or a constant of a rule.
using NftData = std::variant<Bytes, NftVerdict>;

// NF_INET_*.
enum class NftHook : std::uint32_t {
  prerouting = 0,
  input = 1,
  forward = 2,
  output = 3,
  postrouting = 4
};

// Where a base chain meets packets. Of chains with one hook and priority the newest runs first.
struct NftBase {
  std::string type;  // "filter", "nat", "route"
  NftHook hook = NftHook::input;
  std::int32_t priority = 0;
  bool accepts = true;  // the policy; false: drop

  friend auto operator<=>(const NftBase&, const NftBase&) = default;
};

struct NftChainSpec {
  std::string name;
  std::optional<NftBase> base;  // nullopt: reached by verdicts only

  friend auto operator<=>(const NftChainSpec&, const NftChainSpec&) = default;
};

// Types of keys and data, by which the program nft prints them (its src/datatype.h); the kernel
// does not look at them, but at kNftVerdictType.
enum class NftType : std::uint32_t {
  ipv4_addr = 7,
  ipv6_addr = 8,
  inet_proto = 12,
  inet_service = 13,
  mark = 19
};
inline constexpr std::uint32_t kNftVerdictType = 0xffffff00;

// The type of a concatenation.
constexpr std::uint32_t nft_type(std::initializer_list<NftType> parts) {
  std::uint32_t type = 0;
  for (const auto part : parts) type = type << 6 | static_cast<std::uint32_t>(part);
  return type;
}

// A set or map. Anonymous sets can be listed and not be made: the kernel names them by itself, so
// that what was written would not be what is read.
struct NftSetSpec {
  static constexpr std::uint32_t kAnonymous = 0x1;
  static constexpr std::uint32_t kConstant = 0x2;
  static constexpr std::uint32_t kInterval = 0x4;
  static constexpr std::uint32_t kMap = 0x8;
  static constexpr std::uint32_t kConcatenation = 0x80;  // with kInterval; needs `fields`

  std::string name;
  std::uint32_t flags = 0;
  std::uint32_t key_type = 0;
  std::uint32_t key_bytes = 0;  // each part of a concatenation filled up to 4 bytes
  std::uint32_t data_type = 0;  // of a map
  std::uint32_t data_bytes = 0;
  std::vector<std::uint32_t> fields;  // bytes of each part, not filled up
  std::uint32_t size = 0;             // most elements; 0: no limit

  friend auto operator<=>(const NftSetSpec&, const NftSetSpec&) = default;
};

// Keys are in network order. A concatenation with intervals has the last key in `key_end`; any
// other interval is two elements: its first key, and the key behind its last with `interval_end`.
struct NftElement {
  Bytes key;
  Bytes key_end;
  bool interval_end = false;
  bool asks = false;  // read only: it has statements (limit, quota) by which a packet may not match
  std::optional<NftData> data;

  friend auto operator<=>(const NftElement&, const NftElement&) = default;
};

// Appends a part of a concatenation, filled up to 4 bytes.
void append_nft_part(Bytes& key, ByteView part);

// The number by which the kernel lists the register that begins at this 4-byte word: 0 to 15
// (nft_dump_register(), net/netfilter/nf_tables_api.c). Register 0 holds the verdict.
constexpr std::uint32_t nft_register(std::uint32_t word) {
  return word % 4 == 0 ? 1 + word / 4 : 8 + word;
}
inline constexpr std::uint32_t kNftVerdictRegister = 0;

// Expressions. `target` is the register that is written, `source` the one that is read.

enum class NftHeader : std::uint32_t { link = 0, network = 1, transport = 2 };

struct NftPayload {
  static constexpr const char* kName = "payload";
  std::uint32_t target = 0;
  NftHeader header = NftHeader::network;
  std::uint32_t offset = 0;
  std::uint32_t size = 0;  // bytes
  friend bool operator==(const NftPayload&, const NftPayload&) = default;
};

// Exactly one of `target` (reads) and `source` (sets) is there. NFT_META_*.
struct NftMeta {
  static constexpr const char* kName = "meta";
  static constexpr std::uint32_t kMark = 3;
  static constexpr std::uint32_t kL4Protocol = 16;
  std::uint32_t key = 0;
  std::optional<std::uint32_t> target;
  std::optional<std::uint32_t> source;
  friend bool operator==(const NftMeta&, const NftMeta&) = default;
};

// Bits of the state of a packet's connection, and of its status
// (<linux/netfilter/nf_conntrack_common.h>).
namespace nft_ct_state {
inline constexpr std::uint32_t kInvalid = 1U << 0;
inline constexpr std::uint32_t kEstablished = 1U << 1;
inline constexpr std::uint32_t kRelated = 1U << 2;
inline constexpr std::uint32_t kNew = 1U << 3;
inline constexpr std::uint32_t kUntracked = 1U << 6;
}  // namespace nft_ct_state
namespace nft_ct_status {
inline constexpr std::uint32_t kExpected = 1U << 0;
inline constexpr std::uint32_t kSeenReply = 1U << 1;
inline constexpr std::uint32_t kAssured = 1U << 2;
inline constexpr std::uint32_t kConfirmed = 1U << 3;
inline constexpr std::uint32_t kSourceTranslated = 1U << 4;
inline constexpr std::uint32_t kDestinationTranslated = 1U << 5;
}  // namespace nft_ct_status

// NFT_CT_*.
struct NftCt {
  static constexpr const char* kName = "ct";
  static constexpr std::uint32_t kState = 0;
  static constexpr std::uint32_t kStatus = 2;
  std::uint32_t key = 0;
  std::uint32_t target = 0;
  std::optional<std::uint8_t> direction;
  friend bool operator==(const NftCt&, const NftCt&) = default;
};

struct NftLookup {
  static constexpr const char* kName = "lookup";
  std::string set;
  std::uint32_t source = 0;
  std::optional<std::uint32_t> target;  // of a map; kNftVerdictRegister for verdicts
  bool inverted = false;
  friend bool operator==(const NftLookup&, const NftLookup&) = default;
};

struct NftImmediate {
  static constexpr const char* kName = "immediate";
  std::uint32_t target = kNftVerdictRegister;
  NftData data;
  friend bool operator==(const NftImmediate&, const NftImmediate&) = default;
};

// target = (source & mask) ^ flip.
struct NftBitwise {
  static constexpr const char* kName = "bitwise";
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint32_t size = 0;  // bytes
  Bytes mask;
  Bytes flip;
  friend bool operator==(const NftBitwise&, const NftBitwise&) = default;
};

struct NftCompare {
  static constexpr const char* kName = "cmp";
  enum class Op : std::uint32_t { equal, not_equal, less, less_equal, greater, greater_equal };
  std::uint32_t source = 0;
  Op op = Op::equal;
  Bytes data;
  friend bool operator==(const NftCompare&, const NftCompare&) = default;
};

// Asks the routing table. NFT_FIB_RESULT_*, NFTA_FIB_F_*.
struct NftFib {
  static constexpr const char* kName = "fib";
  static constexpr std::uint32_t kAddressType = 3;
  static constexpr std::uint32_t kSource = 1;
  static constexpr std::uint32_t kDestination = 2;
  std::uint32_t target = 0;
  std::uint32_t result = 0;
  std::uint32_t flags = 0;
  friend bool operator==(const NftFib&, const NftFib&) = default;
};

struct NftCounter {
  static constexpr const char* kName = "counter";
  std::uint64_t bytes = 0;
  std::uint64_t packets = 0;
  friend bool operator==(const NftCounter&, const NftCounter&) = default;
};

// NF_NAT_RANGE_*; the two flags that follow from the registers are left out.
inline constexpr std::uint32_t kNftFullyRandom = 0x10;

struct NftMasquerade {
  static constexpr const char* kName = "masq";
  std::uint32_t flags = 0;
  friend bool operator==(const NftMasquerade&, const NftMasquerade&) = default;
};

struct NftNat {
  static constexpr const char* kName = "nat";
  bool destination = true;  // DNAT; false: SNAT
  NftFamily family = NftFamily::ip;
  std::optional<std::uint32_t> address;  // registers
  std::optional<std::uint32_t> address_end;
  std::optional<std::uint32_t> port;
  std::optional<std::uint32_t> port_end;
  std::uint32_t flags = 0;
  friend bool operator==(const NftNat&, const NftNat&) = default;
};

struct NftRedirect {
  static constexpr const char* kName = "redir";
  std::optional<std::uint32_t> port;  // registers
  std::optional<std::uint32_t> port_end;
  std::uint32_t flags = 0;
  friend bool operator==(const NftRedirect&, const NftRedirect&) = default;
};

// NFT_REJECT_*.
struct NftReject {
  static constexpr const char* kName = "reject";
  static constexpr std::uint32_t kIcmp = 0;
  static constexpr std::uint32_t kTcpReset = 1;
  std::uint32_t type = kIcmp;
  std::uint8_t code = 0;
  friend bool operator==(const NftReject&, const NftReject&) = default;
};

// Uses an object of the table. NFT_OBJECT_*.
struct NftObjectRef {
  static constexpr const char* kName = "objref";
  static constexpr std::uint32_t kExpectation = 9;
  std::uint32_t type = 0;
  std::string object;
  friend bool operator==(const NftObjectRef&, const NftObjectRef&) = default;
};

// Any other expression, or one with attributes that the types above do not have; never equal to one
// of ours.
struct NftOtherExpression {
  std::string name;
  Bytes data;
  friend bool operator==(const NftOtherExpression&, const NftOtherExpression&) = default;
};

using NftExpression = std::variant<NftPayload, NftMeta, NftCt, NftLookup, NftImmediate, NftBitwise,
                                   NftCompare, NftFib, NftCounter, NftMasquerade, NftNat,
                                   NftRedirect, NftReject, NftObjectRef, NftOtherExpression>;

struct NftRuleSpec {
  std::string chain;
  std::vector<NftExpression> expressions;

  friend bool operator==(const NftRuleSpec&, const NftRuleSpec&) = default;
};

// An object "ct expectation": a connection whose packet meets a rule with it may expect up to
// `size` more connections. The kernel gives the connection the extension for that before it
// compares the size, and with size 0 does nothing else (nft_ct_expect_obj_eval(),
// net/netfilter/nft_ct.c, 6.1). The program nft lists size 0 and refuses to make it
// (ct_expect_evaluate(), its src/evaluate.c).
struct NftExpectation {
  std::string name;
  std::uint8_t protocol = 6;  // IPPROTO_TCP
  std::uint16_t port = 0;
  std::uint32_t timeout = 0;  // milliseconds
  std::uint8_t size = 0;

  friend auto operator<=>(const NftExpectation&, const NftExpectation&) = default;
};

// A rule that adds connections to a flowtable, whose later packets then pass by all chains.
struct NftFlowRule {
  NftTableKey table;
  std::string chain;  // "": one of many rules
  std::string flowtable;

  friend auto operator<=>(const NftFlowRule&, const NftFlowRule&) = default;
};

// Operations. Adding a table, chain or set that exists as it is succeeds; a table is no longer
// dormant then. Adding an element that exists with the same data succeeds as well. With other data
// it is EEXIST: delete and add in one transaction. Deleting what is absent is ENOENT.
struct NftAddTable {
  NftTableKey table;
};
struct NftDeleteTable {
  NftTableKey table;
};
struct NftAddChain {
  NftTableKey table;
  NftChainSpec chain;
};
struct NftFlushChain {  // all its rules
  NftTableKey table;
  std::string chain;
};
struct NftDeleteChain {  // with its rules; EBUSY while a verdict leads to it
  NftTableKey table;
  std::string chain;
};
struct NftAddSet {
  NftTableKey table;
  NftSetSpec set;
};
struct NftDeleteSet {  // EBUSY while a rule looks into it
  NftTableKey table;
  std::string set;
};
struct NftAddElements {
  NftTableKey table;
  std::string set;
  std::vector<NftElement> elements;
};
struct NftDeleteElements {
  NftTableKey table;
  std::string set;
  std::vector<NftElement> elements;
};
struct NftFlushSet {  // all its elements
  NftTableKey table;
  std::string set;
};
struct NftAddRule {  // behind the last rule of its chain
  NftTableKey table;
  NftRuleSpec rule;
};
struct NftDeleteRule {
  NftTableKey table;
  std::string chain;
  std::uint64_t handle = 0;
};
// An object of this name that exists stays as it is.
struct NftAddExpectation {
  NftTableKey table;
  NftExpectation expectation;
};
struct NftDeleteExpectation {  // EBUSY while a rule uses it
  NftTableKey table;
  std::string expectation;
};
using NftOp = std::variant<NftAddTable, NftDeleteTable, NftAddChain, NftFlushChain, NftDeleteChain,
                           NftAddSet, NftDeleteSet, NftAddElements, NftDeleteElements, NftFlushSet,
                           NftAddRule, NftDeleteRule, NftAddExpectation, NftDeleteExpectation>;

// What belongs together, in order: packets see all of it or nothing. The guards of an address and
// the elements that expose it are one unit.
struct NftUnit {
  std::vector<NftOp> ops;
};

const NftTableKey& table_of(const NftOp& op);
std::string to_string(const NftTableKey& table);  // "ip kube-ipvs"
std::string to_string(const NftOp& op);           // "add 3 elements to ip kube-ipvs services"

}  // namespace ipvsproxier::netlink

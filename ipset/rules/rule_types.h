#pragma once

// Packet filter rules as values, independent of the packet filter that holds them. The types Match
// and Target are our vocabulary: all that our own rules need. Each part is described by its
// iptables-save text, or by its nft(8) text if only nf_tables has it.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

// Those of iptables, and ours of nf_tables.
enum class Table : std::uint8_t { filter, nat, mangle, raw, kube_ipvs };

std::string_view to_string(Table table);  // "filter"

enum class Direction : std::uint8_t { src, dst };

// -m set [!] --match-set NAME dst,dst
struct SetMatch {
  std::string set;
  std::vector<Direction> directions;
  bool negated = false;
  friend auto operator<=>(const SetMatch&, const SetMatch&) = default;
};
// -m mark [!] --mark VALUE/MASK
struct MarkMatch {
  std::uint32_t value = 0;
  std::uint32_t mask = 0;
  bool negated = false;
  friend auto operator<=>(const MarkMatch&, const MarkMatch&) = default;
};
// -m conntrack --ctstate ...
struct ConntrackStateMatch {
  bool is_new = false;
  bool related = false;
  bool established = false;
  bool invalid = false;
  friend auto operator<=>(const ConntrackStateMatch&, const ConntrackStateMatch&) = default;
};
// -m addrtype [!] --src-type LOCAL | --dst-type LOCAL
struct LocalAddressMatch {
  Direction direction = Direction::dst;
  bool negated = false;
  friend auto operator<=>(const LocalAddressMatch&, const LocalAddressMatch&) = default;
};
// -m physdev [!] --physdev-is-in
struct BridgePortInMatch {
  bool negated = false;
  friend auto operator<=>(const BridgePortInMatch&, const BridgePortInMatch&) = default;
};
// -m ipvs --vproto P --vaddr A --vport N: packets of connections to this virtual service
struct IpvsMatch {
  netlink::Protocol protocol = netlink::Protocol::tcp;
  netlink::IpAddress address;
  std::uint16_t port = 0;
  friend auto operator<=>(const IpvsMatch&, const IpvsMatch&) = default;
};
// -p icmp -m icmp --icmp-type 8, or -p ipv6-icmp -m icmp6 --icmpv6-type 128
struct EchoRequestMatch {
  friend auto operator<=>(const EchoRequestMatch&, const EchoRequestMatch&) = default;
};
// -m tcp --dport FIRST[:LAST]; the rule has the protocol
struct DestinationPortMatch {
  netlink::Protocol protocol = netlink::Protocol::tcp;
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  friend auto operator<=>(const DestinationPortMatch&, const DestinationPortMatch&) = default;
};
// nft: ct status confirmed. Not the first packet of its connection; negated: the first one.
struct ConfirmedMatch {
  bool negated = false;
  friend auto operator<=>(const ConfirmedMatch&, const ConfirmedMatch&) = default;
};
// nft: ct status & dnat == 0. No rule has changed the destination of the connection.
struct UntranslatedMatch {
  friend auto operator<=>(const UntranslatedMatch&, const UntranslatedMatch&) = default;
};

// nft: ip saddr != PREFIX ip saddr != PREFIX... The source is in none of them.
struct OutsideMatch {
  std::vector<netlink::IpPrefix> prefixes;
  friend auto operator<=>(const OutsideMatch&, const OutsideMatch&) = default;
};

using Match = std::variant<SetMatch, MarkMatch, ConntrackStateMatch, LocalAddressMatch,
                           BridgePortInMatch, IpvsMatch, EchoRequestMatch, DestinationPortMatch,
                           ConfirmedMatch, OutsideMatch, UntranslatedMatch>;

// [!] -s PREFIX
struct SourceMatch {
  netlink::IpPrefix prefix;
  bool negated = false;
  friend auto operator<=>(const SourceMatch&, const SourceMatch&) = default;
};
// [!] -i NAME, or NAME+ for every interface whose name begins so
struct InInterfaceMatch {
  std::string name;
  bool is_prefix = false;
  bool negated = false;
  friend auto operator<=>(const InInterfaceMatch&, const InInterfaceMatch&) = default;
};

enum class Verdict : std::uint8_t { accept, drop, return_ };

// -j CHAIN
struct JumpTarget {
  std::string chain;
  friend auto operator<=>(const JumpTarget&, const JumpTarget&) = default;
};
// -j MARK --set-xmark VALUE/MASK: mark = (mark & ~mask) ^ value
struct MarkTarget {
  std::uint32_t value = 0;
  std::uint32_t mask = 0;
  friend auto operator<=>(const MarkTarget&, const MarkTarget&) = default;
};
// -j MASQUERADE [--random-fully]
struct MasqueradeTarget {
  bool random_fully = false;
  std::uint32_t clears = 0;  // nft: bits of the mark that are cleared before
  friend auto operator<=>(const MasqueradeTarget&, const MasqueradeTarget&) = default;
};
// -j REJECT --reject-with icmp-port-unreachable | icmp6-port-unreachable
struct RejectTarget {
  friend auto operator<=>(const RejectTarget&, const RejectTarget&) = default;
};
// -j DNAT --to-destination ADDRESS[:PORT]
struct DestinationTarget {
  netlink::IpAddress address;
  std::uint16_t port = 0;  // 0: unchanged
  friend auto operator<=>(const DestinationTarget&, const DestinationTarget&) = default;
};
// -j SNAT --to-source ADDRESS
struct SourceTarget {
  netlink::IpAddress address;
  friend auto operator<=>(const SourceTarget&, const SourceTarget&) = default;
};
// --- rules of other programs: read and judged, never written

// [!] -d PREFIX; also a source prefix of a rule with a ForeignTarget
struct AddressCondition {
  Direction direction = Direction::dst;
  netlink::IpPrefix prefix;
  bool negated = false;
  friend auto operator<=>(const AddressCondition&, const AddressCondition&) = default;
};
// [!] -i NAME[+] (src), [!] -o NAME[+] (dst)
struct LinkCondition {
  Direction direction = Direction::dst;
  std::string name;
  bool is_prefix = false;
  bool negated = false;
  friend auto operator<=>(const LinkCondition&, const LinkCondition&) = default;
};
// [!] -p NUMBER
struct ProtocolCondition {
  std::uint16_t number = 0;
  bool negated = false;
  friend auto operator<=>(const ProtocolCondition&, const ProtocolCondition&) = default;
};
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 65535;
  friend auto operator<=>(const PortRange&, const PortRange&) = default;
};
// Ports of tcp, udp, sctp and multiport; with both directions, a match of either port is enough.
struct PortCondition {
  std::vector<Direction> directions;
  std::vector<PortRange> ranges;
  bool negated = false;
  friend auto operator<=>(const PortCondition&, const PortCondition&) = default;
};
// -m conntrack [!] --ctstate; bits as in <linux/netfilter/xt_conntrack.h>
struct StateCondition {
  static constexpr std::uint16_t kInvalid = 1 << 0;
  static constexpr std::uint16_t kEstablished = 1 << 1;
  static constexpr std::uint16_t kNew = 1 << 3;
  static constexpr std::uint16_t kSourceTranslated = 1 << 6;
  static constexpr std::uint16_t kDestinationTranslated = 1 << 7;
  static constexpr std::uint16_t kUntracked = 1 << 8;
  std::uint16_t states = 0;
  bool negated = false;
  friend auto operator<=>(const StateCondition&, const StateCondition&) = default;
};
// -m addrtype; bits as in <linux/netfilter/xt_addrtype.h>
struct AddressTypeCondition {
  static constexpr std::uint16_t kUnicast = 1 << 1;
  static constexpr std::uint16_t kLocal = 1 << 2;
  static constexpr std::uint16_t kBroadcast = 1 << 3;
  static constexpr std::uint16_t kMulticast = 1 << 5;
  enum class Limit : std::uint8_t { none, in_link, out_link };
  Direction direction = Direction::dst;
  std::uint16_t types = 0;
  bool negated = false;
  Limit limit = Limit::none;
  friend auto operator<=>(const AddressTypeCondition&, const AddressTypeCondition&) = default;
};
// -m connmark [!] --mark VALUE/MASK
struct ConnectionMarkCondition {
  MarkMatch mark;
  friend auto operator<=>(const ConnectionMarkCondition&, const ConnectionMarkCondition&) = default;
};
// -m ipvs [!] --ipvs
struct IpvsCondition {
  bool negated = false;
  friend auto operator<=>(const IpvsCondition&, const IpvsCondition&) = default;
};
// A condition with the same result for every packet of TCP, UDP or SCTP, as fragments (never), or
// for the first packet of every connection, as TCP flags (SYN).
struct FixedCondition {
  bool holds = false;
  bool of_first = false;  // for the first packet alone
  friend auto operator<=>(const FixedCondition&, const FixedCondition&) = default;
};
// A condition that depends on time, on chance, or on data that is not read.
struct UnknownCondition {
  friend auto operator<=>(const UnknownCondition&, const UnknownCondition&) = default;
};

using Condition = std::variant<UnknownCondition, FixedCondition, AddressCondition, LinkCondition,
                               ProtocolCondition, PortCondition, StateCondition,
                               AddressTypeCondition, ConnectionMarkCondition, IpvsCondition>;

struct UnknownAction {
  friend auto operator<=>(const UnknownAction&, const UnknownAction&) = default;
};
// LOG, TCPMSS...: the next rule sees the same packet.
struct NoAction {
  friend auto operator<=>(const NoAction&, const NoAction&) = default;
};
// -g CHAIN
struct GotoAction {
  std::string chain;
  friend auto operator<=>(const GotoAction&, const GotoAction&) = default;
};
// -j REJECT with options that our rules do not use
struct RejectAction {
  enum class Way : std::uint8_t { unreachable, prohibited, reset };
  Way way = Way::unreachable;
  friend auto operator<=>(const RejectAction&, const RejectAction&) = default;
};
// -j DNAT, -j SNAT, -j REDIRECT; those to one address are also a DestinationTarget
// or SourceTarget
struct TranslateAction {
  Direction direction = Direction::dst;
  std::optional<netlink::IpAddress> address;
  std::uint16_t port = 0;  // 0: unchanged
  bool to_here = false;    // REDIRECT
  friend auto operator<=>(const TranslateAction&, const TranslateAction&) = default;
};
// -j CONNMARK: sets, saves or restores the mark of the connection
struct ConnectionMarkAction {
  enum class Way : std::uint8_t { set, save, restore };
  Way way = Way::set;
  std::uint32_t value = 0;
  std::uint32_t connection_mask = 0;
  std::uint32_t packet_mask = 0;
  friend auto operator<=>(const ConnectionMarkAction&, const ConnectionMarkAction&) = default;
};
// -j CT --notrack
struct NoTrackAction {
  friend auto operator<=>(const NoTrackAction&, const NoTrackAction&) = default;
};

using Action = std::variant<UnknownAction, NoAction, Verdict, JumpTarget, GotoAction, MarkTarget,
                            ConnectionMarkAction, MasqueradeTarget, RejectTarget, RejectAction,
                            TranslateAction, NoTrackAction>;

// The target of a rule that was read but is outside our vocabulary. It never equals one of ours and
// is never written. The rule still has its comment, and those matches that our vocabulary has.
struct ForeignTarget {
  std::string description;  // the whole rule without its comment; "[...]" for unknown parts
  std::vector<Condition> conditions;
  Action action;
  friend auto operator<=>(const ForeignTarget&, const ForeignTarget&) = default;
};

// nft: ADDRESS . PROTOCOL . PORT vmap @MAP, by the packet's destination
struct VerdictMapTarget {
  std::string map;
  friend auto operator<=>(const VerdictMapTarget&, const VerdictMapTarget&) = default;
};
// nft: dnat to ip daddr. The destination stays, and later nat chains do not change it either.
struct KeepDestinationTarget {
  friend auto operator<=>(const KeepDestinationTarget&, const KeepDestinationTarget&) = default;
};
// nft: dnat to ADDRESS . PROTOCOL . PORT map @MAP. What the map does not have goes on.
struct DestinationMapTarget {
  std::string map;
  friend auto operator<=>(const DestinationMapTarget&, const DestinationMapTarget&) = default;
};

// nft: ct expectation set "unaccelerated". No flowtable takes the connection; the rule ends.
struct UnacceleratedTarget {
  friend auto operator<=>(const UnacceleratedTarget&, const UnacceleratedTarget&) = default;
};

using Target = std::variant<Verdict, JumpTarget, MarkTarget, MasqueradeTarget, RejectTarget,
                            DestinationTarget, SourceTarget, ForeignTarget, VerdictMapTarget,
                            KeepDestinationTarget, DestinationMapTarget, UnacceleratedTarget>;

// Printed by iptables-save in this order: source, destination, in-interface, protocol, comment,
// matches, target.
struct Rule {
  std::optional<SourceMatch> source;
  std::optional<netlink::IpPrefix> destination;  // -d PREFIX; not a prefix that holds all
  std::optional<InInterfaceMatch> in_interface;
  std::optional<netlink::Protocol> protocol;  // EchoRequestMatch implies its own
  std::string comment;                        // "" for none; at most 255 bytes
  std::vector<Match> matches;
  Target target = Verdict::return_;

  friend auto operator<=>(const Rule&, const Rule&) = default;
};

// The names of the sets and maps that a rule of our vocabulary looks up.
std::vector<std::string> looked_up_by(const Rule& rule);

// The text that iptables-save prints after "-A CHAIN ", for example `-p tcp -m comment --comment "a
// b" -j DROP`. The family decides the spelling of echo requests and rejections.
std::string to_string(const Rule& rule, netlink::Family family);

// The text of a part: "-m mark --mark 0x4000/0x4000", "-j ACCEPT".
std::string to_string(const Match& match, netlink::Family family);
std::string to_string(const Target& target, netlink::Family family);

// The chain whose rules may stand in any order, behind those that return.
inline constexpr std::string_view kUnorderedChain = "KUBE-IPVS-OUT-FILTER";

// Whether an earlier build of this program made the chain of the table nat, for clients within the
// cluster: KUBE-IN-CLUSTER, or that name, "-" and eleven letters. Such chains are removed.
bool is_of_earlier_build(std::string_view chain);

// A chain of ours with all its rules.
struct Chain {
  std::string name;
  std::vector<Rule> rules;

  friend auto operator<=>(const Chain&, const Chain&) = default;
};

// A rule in a built-in chain that jumps to one of our chains. Other rules of built-in chains are
// not ours.
struct BaseJump {
  std::string from;  // "INPUT"
  Rule rule;

  friend auto operator<=>(const BaseJump&, const BaseJump&) = default;
};

// Packets and bytes that a rule has matched so far.
struct RuleCount {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;

  friend auto operator<=>(const RuleCount&, const RuleCount&) = default;
};

// All chains of a table, whichever program made them. A rule outside our vocabulary has a
// ForeignTarget.
struct WholeTable {
  std::map<std::string, std::vector<Rule>> chains;
  // Of each rule in `chains`, in the same order; nullopt: it counts nothing.
  std::map<std::string, std::vector<std::optional<RuleCount>>> counts;
  std::map<std::string, Verdict> policies;  // of the built-in chains

  friend bool operator==(const WholeTable&, const WholeTable&) = default;
};

// Our chains and jumps in one table of one family.
struct TableRules {
  netlink::Family family = netlink::Family::ipv4;
  Table table = Table::filter;
  std::vector<Chain> chains;
  std::vector<BaseJump> jumps;  // in the order in which they are inserted, each at position 1

  friend auto operator<=>(const TableRules&, const TableRules&) = default;
};

// Matches rules of built-in chains by the chain that they jump to and by comment ("": any),
// whatever else the rules contain.
struct JumpPattern {
  std::string to;
  std::string comment;

  friend auto operator<=>(const JumpPattern&, const JumpPattern&) = default;
};

// The chains and jumps to remove from one table of one family.
struct RuleRemoval {
  netlink::Family family = netlink::Family::ipv4;
  Table table = Table::filter;
  std::vector<JumpPattern> jumps;
  std::vector<std::string> chains;
  std::vector<std::string> prefixes;  // prefixes of chain names
  bool of_earlier_builds = false;     // is_of_earlier_build()

  friend auto operator<=>(const RuleRemoval&, const RuleRemoval&) = default;
};

// The chain that rules of others, as those of host ports, jump to for masquerading: while they do,
// it keeps its rule. Other chains that they jump to stay empty.
inline constexpr std::string_view kMarkChain = "KUBE-MARK-MASQ";

bool names_chain(const RuleRemoval& removal, std::string_view chain);
bool names_jump(const RuleRemoval& removal, std::string_view to, std::string_view comment);

// What becomes of a chain to which rules of others lead: "stays, empty: rules of others lead to
// it".
std::string_view in_use_text(std::string_view chain);

struct RemovedRules {
  std::size_t jumps = 0;
  std::size_t chains = 0;
  std::vector<std::string> in_use;  // chains that other rules still jump to: they stay

  friend bool operator==(const RemovedRules&, const RemovedRules&) = default;
};

// Counts of what was removed of kube-proxy's leftovers in nf_tables.
struct RemovedNft {
  bool table = false;      // the table of nftables mode
  std::size_t jumps = 0;   // from built-in chains of iptables-nft's tables
  std::size_t chains = 0;  // in those tables
  // "ip filter KUBE-FORWARD": chains that stay, see nft_leftovers.h
  std::vector<std::string> held_back;
  std::vector<std::string> in_use;  // "ip nat KUBE-MARK-MASQ": others lead to them, they stay

  friend bool operator==(const RemovedNft&, const RemovedNft&) = default;
};

// A chain that is renamed to make room for a new chain of its name.
struct ChainMove {
  JumpPattern jump;  // the old chain, and the jump to the new one
  // The old chain's new name.
  std::string aside;
};

// Whether `actual` has every chain of `desired` with the same rules, and every jump at least once;
// and no other chain of ours that has rules, as far as it tells. The order of rules counts, except
// in kUnorderedChain.
bool holds(const TableRules& actual, const TableRules& desired);

// Whether both chains hold the same rules; compares like holds().
bool same_rules(const Chain& actual, const Chain& desired);

}  // namespace ipvsproxier::ipset

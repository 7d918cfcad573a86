#pragma once

// Packet filter rules as values, neutral of the backend that holds them. A rule's parts are named
// for what iptables-save prints of them.

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

enum class Table : std::uint8_t { filter, nat, mangle, raw };

std::string_view to_string(Table table);  // "filter"

enum class Direction : std::uint8_t { src, dst };

// -m set --match-set NAME dst,dst
struct SetMatch {
  std::string set;
  std::vector<Direction> directions;
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

using Match = std::variant<SetMatch, MarkMatch, ConntrackStateMatch, LocalAddressMatch,
                           BridgePortInMatch, IpvsMatch, EchoRequestMatch>;

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
  friend auto operator<=>(const MasqueradeTarget&, const MasqueradeTarget&) = default;
};
// -j REJECT --reject-with icmp-port-unreachable | icmp6-port-unreachable
struct RejectTarget {
  friend auto operator<=>(const RejectTarget&, const RejectTarget&) = default;
};
// --- rules of others: read and judged, never written

// [!] -d PREFIX, and a source that stands beside what is not in our vocabulary
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
// Of tcp, udp, sctp and multiport; with both directions one port of the two is enough.
struct PortCondition {
  std::vector<Direction> directions;
  std::vector<PortRange> ranges;
  bool negated = false;
  friend auto operator<=>(const PortCondition&, const PortCondition&) = default;
};
// -m conntrack [!] --ctstate; bits as in <linux/netfilter/xt_conntrack.h>
struct StateCondition {
  static constexpr std::uint16_t kInvalid = 1 << 0;
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
// -m set ! --match-set
struct NotInSetCondition {
  SetMatch match;
  friend auto operator<=>(const NotInSetCondition&, const NotInSetCondition&) = default;
};
// -m connmark [!] --mark VALUE/MASK
struct ConnectionMarkCondition {
  MarkMatch mark;
  friend auto operator<=>(const ConnectionMarkCondition&, const ConnectionMarkCondition&) = default;
};
// What is the same for the first packet of each TCP, UDP or SCTP connection: it is whole, a SYN...
struct FixedCondition {
  bool holds = false;
  friend auto operator<=>(const FixedCondition&, const FixedCondition&) = default;
};
// What depends on time, chance or what is not read.
struct UnknownCondition {
  friend auto operator<=>(const UnknownCondition&, const UnknownCondition&) = default;
};

using Condition = std::variant<UnknownCondition, FixedCondition, AddressCondition, LinkCondition,
                               ProtocolCondition, PortCondition, StateCondition,
                               AddressTypeCondition, NotInSetCondition, ConnectionMarkCondition>;

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
// -j REJECT in other ways than ours
struct RejectAction {
  enum class Way : std::uint8_t { unreachable, prohibited, reset };
  Way way = Way::unreachable;
  friend auto operator<=>(const RejectAction&, const RejectAction&) = default;
};
// -j DNAT, -j SNAT, -j REDIRECT
struct TranslateAction {
  Direction direction = Direction::dst;
  std::optional<netlink::IpAddress> address;
  std::uint16_t port = 0;  // 0: as it was
  bool to_here = false;    // REDIRECT
  friend auto operator<=>(const TranslateAction&, const TranslateAction&) = default;
};
// -j CONNMARK: between the mark of the packet and that of its connection
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

// Of a rule that was read but is not in our vocabulary: never equal to one of ours, and never
// written. The rule has its comments, and as matches those that our vocabulary has.
struct ForeignTarget {
  std::string description;  // the whole rule but for its comment; "[...]" for what is not known
  std::vector<Condition> conditions;
  Action action;
  friend auto operator<=>(const ForeignTarget&, const ForeignTarget&) = default;
};

using Target =
    std::variant<Verdict, JumpTarget, MarkTarget, MasqueradeTarget, RejectTarget, ForeignTarget>;

// Printed by iptables-save in this order: source, in-interface, protocol, comment, matches, target.
struct Rule {
  std::optional<SourceMatch> source;
  std::optional<InInterfaceMatch> in_interface;
  std::optional<netlink::Protocol> protocol;  // EchoRequestMatch implies its own
  std::string comment;                        // "" for none; at most 255 bytes
  std::vector<Match> matches;
  Target target = Verdict::return_;

  friend auto operator<=>(const Rule&, const Rule&) = default;
};

// As iptables-save prints it after "-A CHAIN ", for instance `-p tcp -m comment --comment "a b" -j
// DROP`; the family decides how an echo request and a rejection are spelled.
std::string to_string(const Rule& rule, netlink::Family family);

// Of a part: "-m mark --mark 0x4000/0x4000", "-j ACCEPT".
std::string to_string(const Match& match, netlink::Family family);
std::string to_string(const Target& target, netlink::Family family);

// The chain whose rules are a set: their order is free.
inline constexpr std::string_view kUnorderedChain = "KUBE-IPVS-OUT-FILTER";

// A chain of ours with all its rules.
struct Chain {
  std::string name;
  std::vector<Rule> rules;

  friend auto operator<=>(const Chain&, const Chain&) = default;
};

// A rule that leads from a built-in chain to one of ours; other rules there are not ours.
struct BaseJump {
  std::string from;  // "INPUT"
  Rule rule;

  friend auto operator<=>(const BaseJump&, const BaseJump&) = default;
};

// What a rule has matched so far.
struct RuleCount {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;

  friend auto operator<=>(const RuleCount&, const RuleCount&) = default;
};

// A whole table as it was read, whoever made its chains. A rule that is not in our vocabulary has a
// ForeignTarget.
struct WholeTable {
  std::map<std::string, std::vector<Rule>> chains;
  std::map<std::string, std::vector<RuleCount>> counts;  // of the rules of `chains`, in their order
  std::map<std::string, Verdict> policies;               // of the built-in chains

  friend bool operator==(const WholeTable&, const WholeTable&) = default;
};

// What is ours in one table of one family.
struct TableRules {
  netlink::Family family = netlink::Family::ipv4;
  Table table = Table::filter;
  std::vector<Chain> chains;
  std::vector<BaseJump> jumps;  // in the order in which they are inserted, each at position 1

  friend auto operator<=>(const TableRules&, const TableRules&) = default;
};

// Rules of built-in chains that lead to a chain and bear a comment, whatever else they ask for.
struct JumpPattern {
  std::string to;
  std::string comment;

  friend auto operator<=>(const JumpPattern&, const JumpPattern&) = default;
};

// What is to go from one table of one family.
struct RuleRemoval {
  netlink::Family family = netlink::Family::ipv4;
  Table table = Table::filter;
  std::vector<JumpPattern> jumps;
  std::vector<std::string> chains;
  std::vector<std::string> prefixes;  // chains whose names begin so

  friend auto operator<=>(const RuleRemoval&, const RuleRemoval&) = default;
};

bool names_chain(const RuleRemoval& removal, std::string_view chain);
bool names_jump(const RuleRemoval& removal, std::string_view to, std::string_view comment);

struct RemovedRules {
  std::size_t jumps = 0;
  std::size_t chains = 0;
  std::vector<std::string> in_use;  // chains to which other rules lead: they stay, empty

  friend bool operator==(const RemovedRules&, const RemovedRules&) = default;
};

// Of what kube-proxy left in nf_tables.
struct RemovedNft {
  bool table = false;      // that of nftables mode
  std::size_t jumps = 0;   // from built-in chains of iptables-nft's tables
  std::size_t chains = 0;  // in those tables
  std::vector<std::string>
      held_back;  // "ip filter KUBE-FORWARD": chains that stay, see nft_tables.h
  std::vector<std::string> warnings;  // of chains that drop by policy: what is to be done

  friend bool operator==(const RemovedNft&, const RemovedNft&) = default;
};

// A chain that makes room for another one of its name, and what it is called from then on.
struct ChainMove {
  JumpPattern jump;  // to the chain; what leads to the chain that takes its place
  std::string aside;
};

// Whether `actual` has every chain of `desired` with the same rules and every jump at least once.
// The rules of a chain are compared in order, but for kUnorderedChain.
bool holds(const TableRules& actual, const TableRules& desired);

// The same for one chain: whether it holds the same rules.
bool same_rules(const Chain& actual, const Chain& desired);

}  // namespace ipvsproxier::ipset

#pragma once

// Rule <-> the bytes of struct ipt_entry or ip6t_entry as libiptc takes and gives them. Pure except
// for the set resolver; any thread.
//
// Extensions and revisions are those that iptables 1.8.9 uses on Linux 6.1: comment 0, set 4,
// mark 1, conntrack 3, addrtype 1, physdev 0, ipvs 0, icmp 0, icmp6 0, tcp 0, udp 0, sctp 0; MARK
// 2, MASQUERADE 0, REJECT 0, DNAT 2. Rules written by kube-proxy therefore decode to the rules of
// our catalogue.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/rules/rule_layout.h"
#include "ipset/rules/rule_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// Names and indexes of sets: the kernel's rules refer to sets by index.
class SetResolver {
 public:
  virtual ~SetResolver() = default;
  // An error names the set. A set of another family is an error.
  virtual netlink::Result<std::uint16_t> index_of(const std::string& name,
                                                  netlink::Family family) = 0;
  virtual std::optional<std::string> name_of(std::uint16_t index) = 0;
};

// The entry for libiptc's insert and append calls. A verdict or a jump becomes a target of that
// name, which libiptc resolves. An error names the part that cannot be expressed or the missing
// set; a rule with a ForeignTarget cannot be encoded.
netlink::Result<Bytes> encode_rule(const Rule& rule, netlink::Family family, SetResolver& sets);

// The rule of an entry from libiptc. `label` is the result of libiptc's get_target call: the
// verdict, the chain or the extension. Never fails: a rule that our vocabulary (rule_types.h) does
// not cover to the last flag gets a ForeignTarget that describes it (foreign_rules.h).
Rule decode_rule(netlink::Family family, std::span<const std::uint8_t> bytes,
                 std::string_view label, SetResolver& sets);

// The comment of any entry, at whatever position the comment match stands; "" for none.
std::string comment_of(netlink::Family family, std::span<const std::uint8_t> bytes);

// The match and target extensions that a rule needs, to report which one a kernel lacks. A verdict
// or a chain is not an extension.
struct ExtensionName {
  std::string name;  // "set"
  std::uint8_t revision = 0;
  bool is_target = false;

  friend auto operator<=>(const ExtensionName&, const ExtensionName&) = default;
};
std::vector<ExtensionName> extensions_of(const Rule& rule, netlink::Family family);
std::set<ExtensionName> extensions_of(const TableRules& rules);

// Names of kernel modules (Linux 6.1): of the legacy tables of a family ("ip6_tables"), of one of
// them ("ip6table_nat"), and of an extension ("xt_set").
std::string module_of(netlink::Family family);
std::string module_of(netlink::Family family, Table table);
std::string module_of(netlink::Family family, const ExtensionName& extension);
// The modules of the table and of all extensions of its rules.
std::set<std::string> modules_of(const TableRules& rules);

}  // namespace ipvsproxier::ipset

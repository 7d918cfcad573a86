#pragma once

// Rule <-> the bytes of struct ipt_entry or ip6t_entry as libiptc takes and gives them. Pure but
// for the set resolver; any thread.
//
// Extensions and revisions are those that iptables 1.8.9 uses on Linux 6.1: comment 0, set 4,
// mark 1, conntrack 3, addrtype 1, physdev 0, ipvs 0, icmp 0, icmp6 0; MARK 2, MASQUERADE 0,
// REJECT 0. Rules written by kube-proxy therefore decode to the rules of our catalogue.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ipset/rule_layout.h"
#include "ipset/rule_types.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

// The kernel's rules refer to sets by index.
class SetResolver {
 public:
  virtual ~SetResolver() = default;
  // An error names the set; a set of another family is one.
  virtual netlink::Result<std::uint16_t> index_of(const std::string& name,
                                                  netlink::Family family) = 0;
  virtual std::optional<std::string> name_of(std::uint16_t index) = 0;
};

// The entry for libiptc's insert and append calls: a verdict or a jump is a target of that name,
// which libiptc resolves. An error names what cannot be expressed or the set that is missing; a
// rule with a ForeignTarget cannot be encoded.
netlink::Result<Bytes> encode_rule(const Rule& rule, netlink::Family family, SetResolver& sets);

// The rule in an entry that libiptc gives; `label` is what its get_target call says of it: the
// verdict, the chain or the extension. Never fails: whatever is not in our vocabulary, to the last
// flag, gives a rule with a ForeignTarget that says what it was (foreign_rules.h).
Rule decode_rule(netlink::Family family, std::span<const std::uint8_t> bytes,
                 std::string_view label, SetResolver& sets);

// The comment of any entry, wherever it stands; "" for none.
std::string comment_of(netlink::Family family, std::span<const std::uint8_t> bytes);

// The match and target extensions that a rule needs, for saying which one a kernel lacks. A target
// that is a verdict or a chain is not an extension.
struct ExtensionName {
  std::string name;  // "set"
  std::uint8_t revision = 0;
  bool is_target = false;

  friend auto operator<=>(const ExtensionName&, const ExtensionName&) = default;
};
std::vector<ExtensionName> extensions_of(const Rule& rule, netlink::Family family);

}  // namespace ipvsproxier::ipset

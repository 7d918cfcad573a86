#pragma once

// Decodes the rules that kubelet, CNI plugins, docker, firewalld and administrators write. Such
// rules are read and judged, never written. rule_codec.cc uses this for rules outside our
// vocabulary (rule_types.h). Pure except for the set resolver; any input bytes give a result.

#include <string_view>

#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_layout.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// A rule with a ForeignTarget. A part that is not understood to its last flag becomes an
// UnknownCondition or UnknownAction. `label` as for decode_rule().
Rule read_foreign(netlink::Family family, const EntryParts& parts, std::string_view label,
                  SetResolver& sets);

// The conditions of a match extension, and its text as iptables-save prints it.
struct ReadCondition {
  std::string text;
  std::vector<Condition> conditions;  // all of them must hold
};
ReadCondition read_match(const Extension& extension);

// The action of a target extension, and its text.
struct ReadAction {
  std::string text;
  Action action;
};
ReadAction read_target(netlink::Family family, const Extension& extension);

// The action of a target in our vocabulary; unknown if a map decides about it.
Action action_of_target(const Target& target);

}  // namespace ipvsproxier::ipset

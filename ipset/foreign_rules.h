#pragma once

// What kubelet, CNI plugins, docker, firewalld and administrators write: bytes -> rules that are
// read and judged, never written. Used by rule_codec.cc for what is not in our vocabulary. Pure but
// for the set resolver; whatever the bytes are, an answer comes.

#include <string_view>

#include "ipset/rule_codec.h"
#include "ipset/rule_layout.h"
#include "ipset/rule_types.h"

namespace ipvsproxier::ipset {

// A rule with a ForeignTarget. Each part is understood to the last flag or is an UnknownCondition
// or UnknownAction. `label` as for decode_rule().
Rule read_foreign(netlink::Family family, const EntryParts& parts, std::string_view label,
                  SetResolver& sets);

// What an extension asks of a packet, and how iptables-save spells it.
struct ReadCondition {
  std::string text;
  std::vector<Condition> conditions;  // all of them
};
ReadCondition read_match(netlink::Family family, const Extension& extension, SetResolver& sets);

// The same of a target that is an extension.
struct ReadAction {
  std::string text;
  Action action;
};
ReadAction read_target(netlink::Family family, const Extension& extension);

}  // namespace ipvsproxier::ipset

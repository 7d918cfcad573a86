#pragma once

// The data of each match and target of our vocabulary (rule_types.h) <-> kernel bytes. For
// rule_codec.cc and foreign_*.cc; pure except for the set resolver.

#include <optional>

#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_layout.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// IPPROTO_ICMP, IPPROTO_ICMPV6.
std::uint16_t echo_protocol(netlink::Family family);

netlink::Result<Extension> encode_comment(const std::string& comment);
netlink::Result<Extension> encode_match(const Match& match, netlink::Family family,
                                        SetResolver& sets);
netlink::Result<Extension> encode_target(const Target& target, netlink::Family family);

// Decoders of an extension with padded data; nullopt if it does not mean exactly one of our values.
std::optional<std::string> decode_comment(const Extension& extension);
std::optional<Match> decode_match(const Extension& extension, netlink::Family family,
                                  SetResolver& sets);
std::optional<Target> decode_target(const Extension& extension, netlink::Family family);

}  // namespace ipvsproxier::ipset

#pragma once

// The data of each match and target of our vocabulary (rule_types.h) <-> kernel bytes. For
// rule_codec.cc and foreign_*.cc; pure except for the set resolver.

#include <cstdint>
#include <optional>

#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_layout.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::ipset {

// struct xt_sctp_info of <linux/netfilter/xt_sctp.h>, a header that C++ cannot include.
struct SctpInfo {
  static constexpr std::uint32_t kSource = 1;
  static constexpr std::uint32_t kDestination = 2;
  std::uint16_t dpts[2];
  std::uint16_t spts[2];
  std::uint32_t chunks[64];
  std::uint32_t chunk_match;
  std::uint8_t chunk_flags[12];
  std::int32_t chunk_flag_count;
  std::uint32_t flags;
  std::uint32_t invflags;
};

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

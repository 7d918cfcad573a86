#pragma once

// Decodes nf_tables rules that lead to another chain. Pure; any thread.
//
//   nlmsghdr | nfgenmsg family | TABLE CHAIN HANDLE EXPRESSIONS{ ELEM{ NAME DATA{...} } ... } ...
//
// A jump is an expression "immediate" whose data is a verdict that names a chain
// (net/netfilter/nft_immediate.c, nf_tables_api.c: nft_verdict_dump).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

struct NftJump {
  std::uint64_t handle = 0;  // of the rule, unique in its table
  std::string target;        // the chain that the rule leads to

  friend auto operator<=>(const NftJump&, const NftJump&) = default;
};

// Asks for a dump of the rules of one chain. `family` is "ip", "ip6" or "inet".
netlink::Bytes list_rules_request(std::string_view family, std::string_view table,
                                  std::string_view chain);

// Decodes one message of the dump; `payload` starts with nfgenmsg. nullopt: the rule leads to no
// chain. `malformed` for bytes that break the policy.
netlink::Result<std::optional<NftJump>> decode_jump(netlink::ByteView payload);

}  // namespace ipvsproxier::ipset

#pragma once

// Rules of nf_tables, step by step: what each expression does to a packet or asks of it, and the
// words of nft(8) for it. Pure except the set resolver; any thread. rule_decoding.h and the pages
// of ipvsctl use the words; ipset/judge judges the steps of rules that other programs wrote.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_types.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::ipset {

// An expression of iptables-nft: a match with its conditions, all of which must hold, or a target
// with its action.
struct ExtensionStep {
  std::string text;  // "-m conntrack --ctstate NEW"; "" for a comment
  std::vector<Match> matches;
  std::vector<Condition> conditions;
  std::optional<Action> action;
};

// An expression of which only the words are known, or only the name: "[limit]".
struct NamedStep {
  enum class Kind : std::uint8_t {
    harmless,  // it decides nothing about the packet
    question,  // the rule may not match
    unknown,   // the packet may have ended there as well
  };
  std::string text;
  Kind kind = Kind::unknown;
};

using NftStep =
    std::variant<netlink::NftPayload, netlink::NftMeta, netlink::NftCt, netlink::NftLookup,
                 netlink::NftImmediate, netlink::NftBitwise, netlink::NftCompare, netlink::NftFib,
                 netlink::NftMasquerade, netlink::NftNat, netlink::NftRedirect, netlink::NftReject,
                 netlink::NftRange, netlink::NftByteOrder, netlink::NftSetConnectionMark,
                 netlink::NftNoTrack, netlink::NftFlowOffload, ExtensionStep, NamedStep>;

// One step for each expression but counters.
std::vector<NftStep> steps_of(std::span<const netlink::NftExpression> expressions,
                              netlink::Family family, SetResolver& sets);

// A resolver that knows no set: rules with IP sets then have unknown conditions.
class NoSets final : public SetResolver {
 public:
  netlink::Result<std::uint16_t> index_of(const std::string& name, netlink::Family family) override;
  std::optional<std::string> name_of(std::uint16_t index) override;
};

// The steps in the words of nft(8), those without words in brackets: "ip saddr 10.0.0.0/8 tcp dport
// @ports [limit] drop". Anonymous sets whose elements are in `sets` are written out, up to
// kMostListed of them. Names are as the kernel has them, control characters included.
inline constexpr std::size_t kMostListed = 8;
std::string words_of(std::span<const NftStep> steps, netlink::Family family,
                     const std::map<std::string, FilterSet>& sets);

// The same for a rule of our table: "ip daddr @vips jump to_vip". Empty if the rule has a part that
// only iptables has.
std::string to_nft_string(const Rule& rule, netlink::Family family);

// An element's key in the words of nft(8), by the type of its set: "10.96.0.9 . tcp . 80".
std::string key_words(const netlink::NftSetSpec& set, const netlink::Bytes& key);

}  // namespace ipvsproxier::ipset

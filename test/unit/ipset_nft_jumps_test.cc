#include "ipset/nft/nft_jumps.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <utility>

#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

using netlink::AttrKind;
using netlink::AttrReader;
using netlink::AttrRule;
using netlink::Bytes;
using netlink::ByteView;
using netlink::MessageWriter;

using MaybeJump = std::optional<NftJump>;

// A rule as the kernel lists it: its handle, then expressions.
class ListedRule {
 public:
  ListedRule() : writer_(NFT_MSG_NEWRULE, 0, netlink::bytes_of(nfgenmsg{})) {
    writer_.put_string(NFTA_RULE_TABLE, "nat");
    writer_.put_string(NFTA_RULE_CHAIN, "PREROUTING");
    const std::array<std::uint8_t, 8> handle = {0, 0, 0, 0, 0, 0, 1, 2};
    writer_.put_bytes(NFTA_RULE_HANDLE, handle);
  }
  // Expressions of other kinds, then this verdict.
  Bytes with_verdict(std::uint32_t code, const char* chain) && {
    {
      const auto expressions = writer_.nest(NFTA_RULE_EXPRESSIONS);
      add("match", [] {});
      // A value is loaded into a register: an immediate as well.
      add("immediate", [this] {
        const auto data = writer_.nest(NFTA_IMMEDIATE_DATA);
        writer_.put_string(NFTA_DATA_VALUE, "KUBE-SERVICES");
      });
      add("counter", [] {});
      add("immediate", [this, code, chain] {
        writer_.put_be32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        const auto data = writer_.nest(NFTA_IMMEDIATE_DATA);
        const auto verdict = writer_.nest(NFTA_DATA_VERDICT);
        writer_.put_be32(NFTA_VERDICT_CODE, code);
        if (chain != nullptr) writer_.put_string(NFTA_VERDICT_CHAIN, chain);
      });
    }
    return std::move(*this).take();
  }
  // These expressions alone.
  template <typename... Fills>
  Bytes with(std::pair<const char*, Fills>... steps) && {
    {
      const auto expressions = writer_.nest(NFTA_RULE_EXPRESSIONS);
      (add(steps.first, [&] { steps.second(writer_); }), ...);
    }
    return std::move(*this).take();
  }
  // Behind the message's header.
  Bytes take() && {
    auto message = std::move(writer_).take();
    return {message.begin() + netlink::kMessageHeaderSize, message.end()};
  }

 private:
  template <typename Fill>
  void add(const char* name, Fill fill) {
    const auto element = writer_.nest(NFTA_LIST_ELEM);
    writer_.put_string(NFTA_EXPR_NAME, name);
    const auto data = writer_.nest(NFTA_EXPR_DATA);
    fill();
  }

  MessageWriter writer_;
};

constexpr auto kJump = static_cast<std::uint32_t>(NFT_JUMP);
constexpr auto kGoto = static_cast<std::uint32_t>(NFT_GOTO);

TEST_CASE("a rule that jumps to a chain tells it") {
  const auto code = GENERATE(kJump, kGoto);
  CHECK(decode_jump(ListedRule().with_verdict(code, "KUBE-SERVICES")).value() ==
        MaybeJump({.handle = 0x102, .target = "KUBE-SERVICES"}));
}

TEST_CASE("a rule that accepts, and one without expressions, lead nowhere") {
  CHECK(decode_jump(ListedRule().with_verdict(1, nullptr)).value() == MaybeJump{});
  CHECK(decode_jump(ListedRule().take()).value() == MaybeJump{});
}

TEST_CASE("every truncation of a rule is refused or read within its bounds") {
  const auto rule = ListedRule().with_verdict(kJump, "KUBE-SERVICES");
  std::size_t jumps = 0;
  for (std::size_t size = 0; size < rule.size(); ++size) {
    const auto jump = decode_jump(ByteView(rule).first(size));
    jumps += jump && *jump ? 1 : 0;
  }
  CHECK(jumps == 0);
}

TEST_CASE("the rules of one chain are asked for") {
  static constexpr std::array kPolicy = {AttrRule{NFTA_RULE_TABLE, AttrKind::string, 0, 255},
                                         AttrRule{NFTA_RULE_CHAIN, AttrKind::string, 0, 255}};
  const auto request = list_rules_request("ip6", "nat", "PREROUTING");
  ByteView datagram(request);
  const auto message = netlink::take_message(datagram).value();
  REQUIRE(message);
  CHECK(message->type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE));
  CHECK((message->flags & NLM_F_DUMP) == NLM_F_DUMP);
  CHECK(message->payload[0] == AF_INET6);
  const auto reader = AttrReader::parse(message->payload.subspan(sizeof(nfgenmsg)), kPolicy);
  REQUIRE(reader);
  CHECK(reader->string(NFTA_RULE_TABLE) == "nat");
  CHECK(reader->string(NFTA_RULE_CHAIN) == "PREROUTING");
}

}  // namespace
}  // namespace ipvsproxier::ipset

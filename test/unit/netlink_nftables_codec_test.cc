// The bytes on the left are what the program nft 1.0.6 sent, and what Linux 6.18 listed then.

#include "netlink/nftables/nftables_codec.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "test/unit/netlink_messages.h"

namespace ipvsproxier::netlink {
namespace {

using test::from_hex;
using test::payload;
using test::sent;
using test::to_hex;

const NftTableKey kRecorded{NftFamily::ip, "t"};

std::vector<Bytes> nft_messages(const NftOp& op) {
  std::vector<Bytes> messages;
  append_nft_op(op, 1, messages);
  return messages;
}

Bytes nft_only(const NftOp& op) {
  auto messages = nft_messages(op);
  REQUIRE(messages.size() == 1);
  return messages[0];
}

std::string sent_rule(const std::string& chain, std::vector<NftExpression> expressions) {
  return sent(nft_only(NftAddRule{kRecorded, {chain, std::move(expressions)}}));
}

// Type and flags of a message.
std::string nft_head(const Bytes& message) {
  return to_hex(ByteView(message).subspan(4, 4));
}

NftImmediate give(NftVerdictCode code, const std::string& chain = "") {
  return {kNftVerdictRegister, NftVerdict{code, chain}};
}

const std::uint32_t kWord0 = nft_register(0);

TEST_CASE("a transaction of nf_tables stands between two messages that name the subsystem") {
  CHECK(nft_head(encode_nft_begin()) == "10000100");
  CHECK(sent(encode_nft_begin()) == "0000000a");
  CHECK(sent(encode_nft_begin(7)) == "0000000a0800010000000007");
  CHECK(nft_head(encode_nft_end()) == "11000100");
  CHECK(sent(encode_nft_end()) == "0000000a");
}

TEST_CASE("the flags of a table") {
  const auto flags_in = [](const char* hex) {
    return decode_nft_table_flags(test::from_hex(hex)).value();
  };
  CHECK(flags_in("020000000600010074000000") == NftTableFlags{});
  CHECK(flags_in("0200000006000100740000000800020000000001") == NftTableFlags{.dormant = true});
  CHECK(flags_in("0200000006000100740000000800020000000002") == NftTableFlags{.owned = true});
  CHECK_FALSE(decode_nft_table_flags(test::from_hex("0200000006000200740000")));
}

TEST_CASE("tables and chains are written as nft writes them") {
  const auto table = nft_only(NftAddTable{kRecorded});
  CHECK(nft_head(table) == "000a0104");
  CHECK(sent(table) == "0200000006000100740000000800020000000000");
  CHECK(nft_head(nft_only(NftDeleteTable{kRecorded})) == "020a0100");
  const auto plain = nft_only(NftAddChain{kRecorded, {"keep", std::nullopt}});
  CHECK(nft_head(plain) == "030a0104");
  CHECK(sent(plain) ==
        "0200000006000100740000000900030"
        "06b65657000000000");
  const NftBase base{.type = "filter", .hook = NftHook::input, .priority = -5};
  CHECK(sent(nft_only(NftAddChain{kRecorded, {"input", base}})) ==
        "0200000006000100740000000a000300696e7075740000000b00070066696c7465720000"
        "080005000000000114000480080001000000000108000200fffffffb");
  CHECK(nft_head(nft_only(NftFlushChain{kRecorded, "input"})) == "080a0100");
  CHECK(nft_head(nft_only(NftDeleteChain{kRecorded, "input"})) == "050a0100");
}

TEST_CASE("sets and maps are written as nft writes them, but for what it notes for itself") {
  const auto services = nft_only(NftAddSet{
      kRecorded,
      {.name = "services",
       .flags = NftSetSpec::kMap,
       .key_type = nft_type({NftType::ipv4_addr, NftType::inet_proto, NftType::inet_service}),
       .key_bytes = 12,
       .data_type = kNftVerdictType}});
  CHECK(nft_head(services) == "090a0104");
  CHECK(sent(services) ==
        "0200000006000100740000000d000200736572766963657300000000080003000000000808000400"
        "0000730d080005000000000c08000600ffffff00080007000000000008000a0000000001");
  CHECK(sent(nft_only(NftAddSet{kRecorded,
                                {.name = "cn",
                                 .flags = NftSetSpec::kInterval | NftSetSpec::kConcatenation,
                                 .key_type = nft_type({NftType::ipv4_addr, NftType::inet_service}),
                                 .key_bytes = 8,
                                 .fields = {4, 2}}})) ==
        "02000000060001007400000007000200636e0000080003000000008408000400000001cd"
        "080005000000000808000a00000000012000098"
        "01c0002800c0001800800010000000004"
        "0c0001800800010000000002");
  CHECK(nft_head(nft_only(NftDeleteSet{kRecorded, "cn"})) == "0b0a0100");
}

TEST_CASE("rules are written as nft writes them") {
  const NftPayload destination{kWord0, NftHeader::network, 16, 4};
  CHECK(nft_head(nft_only(NftAddRule{kRecorded, {"post", {NftMasquerade{}}}})) == "060a010c");
  CHECK(sent_rule("post", {NftMasquerade{kNftFullyRandom}}) ==
        "02000000060001007400000009000200706f737400000000200004801c000180090001006d617371"
        "000000000c0002800800010000000010");
  CHECK(sent_rule("input", {NftCounter{}}) ==
        "0200000006000100740000000a000200696e70757400000018000480140001800c000100636f756e74657200"
        "04000280");
  CHECK(sent_rule("input", {NftCt{NftCt::kState, kWord0, std::nullopt},
                            NftBitwise{kWord0, kWord0, 4, {8, 0, 0, 0}, {0, 0, 0, 0}},
                            NftCompare{kWord0, NftCompare::Op::not_equal, {0, 0, 0, 0}},
                            NftReject{NftReject::kIcmp, 3}}) ==
        "0200000006000100740000000a000200696e707574000000b80004802000018007000100637400001400"
        "028008000200000000000800010000000001440001800c00010062697477697365003400028008000100"
        "0000000108000200000000010800030000000004"
        "0c00048008000100080000000c000580080001000000"
        "00002c00018008000100636d7000200002800800010000000001080002000000"
        "00010c0003800800010000000000240001800b00010072656a6563740000140002800800010000000000"
        "0500020003000000");
  CHECK(sent_rule("input", {NftFib{kWord0, NftFib::kAddressType, NftFib::kSource},
                            NftCompare{kWord0, NftCompare::Op::equal, {2, 0, 0, 0}},
                            give(NftVerdictCode::accept)}) ==
        "0200000006000100740000000a000200696e707574000000880004802800018008000100666962001c000280"
        "0800030000000001080002000000000308000100000000012c00018008000100636d70002000028008000100"
        "00000001080002000000000"
        "00c0003800800010002000000300001800e000100696d6d65646961746500"
        "00001c0002800800010000000000100002800c0002800800010000000001");
  // dnat to ip daddr; nft looks into the set by its number in the transaction, we by its name.
  const auto rule = sent_rule("output", {destination, NftNat{.address = kWord0}});
  CHECK(rule.substr(rule.size() - 80) ==
        "28000180080001006e6174001c000280080001000000000108000200000000020800030000000001");
}

TEST_CASE("what was written is what a listing is read as") {
  const auto chain = decode_nft_chain(
      from_hex("0200000206000100740000000a000300696e7075740000000c000200000000000000000314000400"
               "080001000000000108000200fffffffb08000500000000010b00070066696c746572000008000a00"
               "000000010800060000000009"));
  REQUIRE(chain);
  CHECK(*chain ==
        ListedNftChain{kRecorded,
                       {"input", NftBase{.type = "filter", .hook = NftHook::input, .priority = -5}},
                       3});
  const auto set = decode_nft_set(
      from_hex("0200000206000100740000000d0002007365727669636573000000000c001000000000000000000608"
               "00030000000008080004000000730d080005000000000c08000600ffffff0008000700000000102000"
               "0d00000400000000010400000000030800040d00000001000604000000000400090017001300307866"
               "66666666666666383235303766343000000800140000000002"));
  REQUIRE(set);
  CHECK(set->set == NftSetSpec{.name = "services",
                               .flags = NftSetSpec::kMap,
                               .key_type = 0x730d,
                               .key_bytes = 12,
                               .data_type = kNftVerdictType});
  CHECK(set->handle == 6);
  const auto concatenation = decode_nft_set(
      from_hex("02000002060001007400000007000200636e00000c001000000000000000000a080003000000008408"
               "000400000001cd0800050000000008200009001c0002000c00010008000100000000040c0001000800"
               "010000000002"));
  REQUIRE(concatenation);
  CHECK(concatenation->set.fields == std::vector<std::uint32_t>{4, 2});
}

TEST_CASE("elements are read as they were written") {
  const auto verdicts = decode_nft_elements(
      from_hex("0200000206000100740000000d000200736572766963657300000000600003002800010014000100"
               "100001000a0000011100000000350000100002000c00020008000100000000003400010014000100"
               "100001000a00000106000000005000001c0002001800020008000100fffffffc090002006b656570"
               "00000000"));
  REQUIRE(verdicts);
  CHECK(verdicts->table == kRecorded);
  CHECK(verdicts->set == "services");
  Bytes dns;
  append_nft_part(dns, Bytes{10, 0, 0, 1});
  append_nft_part(dns, Bytes{17});
  append_nft_part(dns, Bytes{0, 53});
  auto web = dns;
  web[4] = 6;
  web[9] = 80;
  const std::vector<NftElement> expected = {
      {.key = dns, .data = NftVerdict{NftVerdictCode::drop, ""}},
      {.key = web, .data = NftVerdict{NftVerdictCode::go_to, "keep"}}};
  CHECK(verdicts->elements == expected);
  const auto marks = decode_nft_elements(
      from_hex("0200000206000100740000000a0002006d61726b73000000200003001c0001000c000100080001000a"
               "0000010c0002000800010000400000"));
  REQUIRE(marks);
  CHECK(marks->elements ==
        std::vector<NftElement>{{.key = {10, 0, 0, 1}, .data = Bytes{0, 0x40, 0, 0}}});
  const auto interval = decode_nft_elements(
      from_hex("020000020600010074000000090002006e6574730000000044000300180001000c000100080001000b"
               "0000000800030000000001100001000c000100080001000a000000180001000c0001000800010000"
               "0000000800030000000001"));
  REQUIRE(interval);
  CHECK(interval->elements == std::vector<NftElement>{{.key = {11, 0, 0, 0}, .interval_end = true},
                                                      {.key = {10, 0, 0, 0}},
                                                      {.key = {0, 0, 0, 0}, .interval_end = true}});
  const auto both = decode_nft_elements(
      from_hex("02000002060001007400000007000200636e00002800030024000100100001000c0001000a00000000"
               "50000010000a000c0001000affffff005a0000"));
  REQUIRE(both);
  CHECK(both->elements == std::vector<NftElement>{{.key = {10, 0, 0, 0, 0, 80, 0, 0},
                                                   .key_end = {10, 255, 255, 255, 0, 90, 0, 0}}});
  // Written and read again.
  for (const auto& listed : {*verdicts, *marks, *interval, *both})
    CHECK(decode_nft_elements(payload(
              nft_only(NftAddElements{listed.table, listed.set, listed.elements}))) == listed);
}

// Of the kernel: set s { type ipv4_addr; elements = { 10.0.0.1 limit rate 1/second } } in short.
TEST_CASE("elements with statements that may not match ask") {
  const auto asks = [](const std::string& statements) {
    const auto listed = decode_nft_elements(
        from_hex("0200000206000100740000000a0002006d61726b73000000" + statements));
    REQUIRE(listed);
    CHECK(listed->elements.at(0).key == Bytes{10, 0, 0, 1});
    return listed->elements.at(0).asks;
  };
  CHECK_FALSE(asks("14000300100001000c000100080001000a000001"));
  CHECK(asks("24000300200001000c000100080001000a000001100007000a0001006c696d6974000000"));
  // A list with a counter, and with a quota behind it.
  CHECK_FALSE(
      asks("28000300240001000c000100080001000a00000114000b00100001000c000100636f756e74657200"));
  CHECK(
      asks("38000300340001000c000100080001000a00000124000b00100001000c000100636f756e74657200"
           "100001000a00010071756f7461000000"));
}

TEST_CASE("many elements are several messages") {
  NftAddElements op{kRecorded, "vips", {}};
  for (std::uint32_t i = 0; i < 5000; ++i)
    op.elements.push_back(
        {.key = {10, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i & 0xff)}});
  std::vector<NftElement> read;
  const auto messages = nft_messages(op);
  CHECK(messages.size() > 5);
  for (const auto& message : messages) {
    CHECK(message.size() < 0xffff);
    const auto listed = decode_nft_elements(payload(message));
    REQUIRE(listed);
    read.insert(read.end(), listed->elements.begin(), listed->elements.end());
  }
  CHECK(read == op.elements);
  CHECK(nft_messages(NftAddElements{kRecorded, "vips", {}}).empty());
}

TEST_CASE("a rule of the kernel is the rule that was written") {
  // dnat to ip daddr: the kernel adds the last address and a flag.
  const auto nat = decode_nft_rule(from_hex(
      "0200000206000100740000000b0002006f757470757400000c0003000000000000000017d4000400"
      "340001000c0001007061796c6f6164002400020008000100000000010800020000000001080003000000"
      "00100800040000000004300001000b0001006c6f6f6b757000002000020009000100766970730000000008"
      "000200000000010800050000000000340001000c0001007061796c6f616400240002000800010000000001"
      "0800020000000001080003000000001008000400000000043800010008000100"
      "6e6174002c0002000800"
      "0100000000010800020000000002080003000000000108000400000000010800070000000001"));
  REQUIRE(nat);
  CHECK(nat->handle == 0x17);
  const NftPayload destination{kWord0, NftHeader::network, 16, 4};
  CHECK(nat->rule == NftRuleSpec{"output",
                                 {destination, NftLookup{.set = "vips", .source = kWord0},
                                  destination, NftNat{.address = kWord0}}});
  // meta mark set meta mark ^ 0x4000: the kernel adds which of its operations `bitwise` is.
  const auto mark = decode_nft_rule(from_hex(
      "0200000206000100740000000a000200696e7075740000000c00030000000000000000140c00060000"
      "000000000000139800040024000100090001006d6574610000000014000200080002000000000308000100"
      "000000014c0001000c00010062697477697365003c00020008000100000000010800020000000001080003"
      "000000000408000600000000000c00040008000100ffffffff0c0005000800010000400000240001000900"
      "01006d657461000000001400020008000200000000030800030000000001"));
  REQUIRE(mark);
  CHECK(mark->rule ==
        NftRuleSpec{"input",
                    {NftMeta{.key = NftMeta::kMark, .target = kWord0},
                     NftBitwise{kWord0, kWord0, 4, {0xff, 0xff, 0xff, 0xff}, {0, 0x40, 0, 0}},
                     NftMeta{.key = NftMeta::kMark, .source = kWord0}}});
  for (const auto& listed : {*nat, *mark}) {
    auto again = nft_only(NftAddRule{listed.table, listed.rule});
    const auto bytes = payload(again);
    // A listing has the handle that the kernel gave.
    Bytes message(bytes.begin(), bytes.end());
    const auto handle = from_hex("0c0003000000000000000001");
    message.insert(message.end(), handle.begin(), handle.end());
    const auto read = decode_nft_rule(message);
    REQUIRE(read);
    CHECK(read->rule == listed.rule);
  }
}

TEST_CASE("an expression that says more than ours is another one") {
  const std::string head =
      "0200000206000100740000000a000200696e7075740000000c0003000000000000000014";
  // payload with a source register writes into the packet; limit is none of ours.
  const auto writes = decode_nft_rule(
      from_hex(head + "24000400200001000c0001007061796c6f616400100002000800050000000001"
                      "00000000"));
  CHECK_FALSE(writes);
  const auto payload_set = decode_nft_rule(from_hex(head + "20000400"
                                                           "1c000100"
                                                           "0c0001007061796c6f616400"
                                                           "0c000200"
                                                           "0800050000000001"));
  REQUIRE(payload_set);
  REQUIRE(payload_set->rule.expressions.size() == 1);
  CHECK(std::holds_alternative<NftOtherExpression>(payload_set->rule.expressions[0]));
  const auto limit = decode_nft_rule(from_hex(head + "18000400"
                                                     "14000100"
                                                     "0a0001006c696d6974000000"
                                                     "04000200"));
  REQUIRE(limit);
  CHECK(limit->rule.expressions == std::vector<NftExpression>{NftOtherExpression{"limit", {}}});
}

TEST_CASE("the generation, and which table a notification is about") {
  const auto generation = from_hex("0000000208000100000000020800020000003d6e080003006e667400");
  CHECK(decode_nft_generation(generation) == 2U);
  CHECK_FALSE(nft_table_of({.type = 0x0a0f, .payload = generation}));
  const auto table = from_hex("020000020600010074000000080003000000000a");
  CHECK(nft_table_of({.type = 0x0a02, .payload = table}) == kRecorded);
  CHECK_FALSE(nft_table_of({.type = 0x0102, .payload = table}));
  CHECK_FALSE(nft_table_of({.type = 0x0a02, .payload = ByteView(table).first(4)}));
}

TEST_CASE("bytes that break the policy are refused") {
  CHECK_FALSE(decode_nft_chain(from_hex("02000002060001007400")));
  CHECK_FALSE(decode_nft_set(from_hex("020000020600010074000000")));
  CHECK_FALSE(decode_nft_rule(from_hex("0200000206000100740000000a000200696e707574000000")));
  CHECK_FALSE(decode_nft_elements(from_hex("020000020600010074000000")));
  // A key that is a verdict.
  CHECK_FALSE(decode_nft_elements(
      from_hex("020000020600010074000000090002007669707300000000180003001400010010000100"
               "0c0002000800010000000000")));
  CHECK_FALSE(decode_nft_generation(from_hex("00000002")));
}

TEST_CASE("an operation says what it is") {
  CHECK(to_string(NftOp(NftAddElements{kRecorded, "vips", {NftElement{}}})) ==
        "add 1 element to ip t vips");
  CHECK(to_string(NftOp(NftDeleteRule{{NftFamily::ip6, "t"}, "input", 4})) ==
        "delete rule 4 from ip6 t input");
}

}  // namespace
}  // namespace ipvsproxier::netlink

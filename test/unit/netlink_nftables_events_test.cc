#include "netlink/nftables/nftables_events.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "netlink/nftables/nftables_codec.h"
#include "test/support/hex.h"

namespace ipvsproxier::netlink {
namespace {

const NftTableKey kWatched{NftFamily::ip, "ours"};

// A notification is an operation as its sender wrote it, with the sender's number.
Bytes notification(const NftOp& op, std::uint32_t port) {
  std::vector<Bytes> messages;
  append_nft_op(op, 1, messages);
  std::memcpy(messages.at(0).data() + 12, &port, sizeof port);
  return messages[0];
}

NftEvents events_of(const Bytes& datagram) {
  NftEvents events;
  NftEventReader({kWatched, {NftFamily::ip6, "ours"}}).take(datagram, events);
  return events;
}

TEST_CASE("a notification tells which table of ours whose socket changed") {
  auto datagram = notification(NftDeleteTable{kWatched}, 7);
  const auto more = notification(NftAddElements{kWatched, "vips", {{.key = {1, 2, 3, 4}}}}, 8);
  datagram.insert(datagram.end(), more.begin(), more.end());
  const auto events = events_of(datagram);
  CHECK(events.changes == std::set<NftChange>{{kWatched, 7}, {kWatched, 8}});
  CHECK_FALSE(events.overrun);
  CHECK_FALSE(events.empty());
}

TEST_CASE("other tables, the end of a transaction and other subsystems are not told") {
  CHECK(events_of(notification(NftDeleteTable{{NftFamily::ip, "theirs"}}, 7)).empty());
  CHECK(events_of(notification(NftDeleteTable{{NftFamily::inet, "ours"}}, 7)).empty());
  // NFT_MSG_NEWGEN
  CHECK(events_of(test::from_hex("1c0000000f0a00000000000007000000"
                                 "0000000208000100"
                                 "00000002"))
            .empty());
  CHECK(events_of({}).empty());
}

TEST_CASE("the end of a transaction tells its generation; those before a reading do not count") {
  // NFT_MSG_NEWGEN of generation 2
  const auto end = test::from_hex(
      "1c0000000f0a00000000000007000000"
      "0000000208000100"
      "00000002");
  CHECK(events_of(end).generation == 2U);
  auto datagram = notification(NftDeleteTable{kWatched}, 7);
  datagram.insert(datagram.end(), end.begin(), end.end());
  const auto changes_since = [&](std::uint32_t generation) {
    NftEvents events;
    NftEventReader reader({{NftFamily::ip, "another"}});
    reader.watch({kWatched}, generation);
    reader.take(datagram, events);
    return events.changes.size();
  };
  CHECK(changes_since(1) == 1);
  CHECK(changes_since(2) == 0);
  CHECK(changes_since(0xffffffff) == 1);
  CHECK(changes_since(0x7fffffff) == 0);
}

TEST_CASE("what cannot be read may have been about any table, and so may very many changers") {
  auto torn = notification(NftDeleteTable{kWatched}, 7);
  torn.resize(torn.size() - 4);
  CHECK(events_of(torn).overrun);
  Bytes many;
  for (std::uint32_t port = 0; port < 1000; ++port) {
    const auto one = notification(NftDeleteTable{kWatched}, port);
    many.insert(many.end(), one.begin(), one.end());
  }
  const auto events = events_of(many);
  CHECK(events.overrun);
  CHECK(events.changes.size() <= NftEventReader::kMostChanges);
}

TEST_CASE("a rule that adds to a flowtable is told, in whichever table, and no other rule") {
  const NftTableKey others{NftFamily::inet, "nb"};
  const auto rule = [&](const std::string& name) {
    // NFTA_FLOW_TABLE_NAME "f".
    const NftOtherExpression expression{name, test::from_hex("0600010066000000")};
    return notification(NftAddRule{others, {"forward", {expression}}}, 7);
  };
  // A listed rule has a handle, which whoever adds it does not name.
  const auto listed = [&](Bytes message) {
    const auto handle = test::from_hex("0c0003000000000000000005");
    message.insert(message.end(), handle.begin(), handle.end());
    const auto size = static_cast<std::uint32_t>(message.size());
    std::memcpy(message.data(), &size, sizeof size);
    return message;
  };
  CHECK(events_of(listed(rule("flow_offload"))).flow_rules);
  CHECK_FALSE(events_of(listed(rule("notrack"))).flow_rules);
  CHECK_FALSE(events_of(rule("flow_offload")).flow_rules);  // no notification of the kernel
}

}  // namespace
}  // namespace ipvsproxier::netlink

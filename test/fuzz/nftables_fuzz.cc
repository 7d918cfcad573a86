// Whatever bytes come from nf_tables, the readers neither leave them nor accept what they could not
// write again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "netlink/nftables/nftables_codec.h"
#include "netlink/nftables/nftables_foreign.h"

namespace ipvsproxier::netlink {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

Bytes written(const NftOp& op) {
  std::vector<Bytes> messages;
  append_nft_op(op, 1, messages);
  require(messages.size() == 1);
  return {messages[0].begin() + kMessageHeaderSize, messages[0].end()};
}

void read_chain(ByteView bytes) {
  const auto listed = decode_nft_chain(bytes);
  if (!listed) return;
  auto chain = listed->chain;
  const auto again = decode_nft_chain(written(NftAddChain{listed->table, chain}));
  require(again.has_value() && again->table == listed->table && again->chain == chain);
}

void read_set(ByteView bytes) {
  const auto listed = decode_nft_set(bytes);
  // What is no map has no data to write.
  if (!listed || (listed->set.flags & NftSetSpec::kMap) == 0) return;
  const auto again = decode_nft_set(written(NftAddSet{listed->table, listed->set}));
  require(again.has_value() && again->table == listed->table && again->set == listed->set);
}

void read_rule(ByteView bytes) {
  const auto listed = decode_nft_rule(bytes);
  if (!listed) return;
  auto message = written(NftAddRule{listed->table, listed->rule});
  // NFTA_RULE_HANDLE, which a listing has.
  message.insert(message.end(), {12, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  const auto again = decode_nft_rule(message);
  require(again.has_value() && again->table == listed->table && again->rule == listed->rule);
  for (const auto& expression : listed->rule.expressions)
    if (const auto* other = std::get_if<NftOtherExpression>(&expression))
      static_cast<void>(read_foreign_expression(*other));
}

void read_elements(ByteView bytes) {
  const auto listed = decode_nft_elements(bytes);
  if (!listed) return;
  std::vector<Bytes> messages;
  append_nft_op(NftAddElements{listed->table, listed->set, listed->elements}, 0, messages);
  std::vector<NftElement> read;
  for (const auto& message : messages) {
    const auto again = decode_nft_elements(ByteView(message).subspan(kMessageHeaderSize));
    require(again.has_value() && again->table == listed->table && again->set == listed->set);
    read.insert(read.end(), again->elements.begin(), again->elements.end());
  }
  require(read == listed->elements);
}

}  // namespace
}  // namespace ipvsproxier::netlink

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipvsproxier::netlink;
  const ByteView bytes(data, size);
  read_chain(bytes);
  read_set(bytes);
  read_rule(bytes);
  read_elements(bytes);
  // Nothing to require of these but that they stay within the bytes.
  (void)decode_nft_table(bytes);
  (void)decode_nft_generation(bytes);
  (void)nft_table_of({.type = 0x0a00, .payload = bytes});
  return 0;
}

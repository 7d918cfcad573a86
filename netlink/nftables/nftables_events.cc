#include "netlink/nftables/nftables_events.h"

#include <algorithm>
#include <utility>

#include "netlink/nftables/nftables_codec.h"

namespace ipvsproxier::netlink {

void NftEventReader::take(ByteView datagram, NftEvents& events) const {
  while (true) {
    const auto message = take_message(datagram);
    if (!message) {
      events.overrun = true;
      return;
    }
    if (!*message) return;
    if (const auto generation = nft_generation_of(**message)) {
      events.generation = generation;
      // What was told before it was part of it. Generations wrap around.
      if (since_ && static_cast<std::int32_t>(*generation - *since_) <= 0) events.changes.clear();
    }
    events.base_chains = events.base_chains || is_about_nft_base_chain(**message);
    events.flow_rules = events.flow_rules || is_about_nft_flowtable(**message);
    auto table = nft_table_of(**message);
    if (!table || std::ranges::find(tables_, *table) == tables_.end()) continue;
    events.changes.insert({*std::move(table), (*message)->port});
    if (events.changes.size() <= kMostChanges) continue;
    events.changes.clear();
    events.overrun = true;
  }
}

}  // namespace ipvsproxier::netlink

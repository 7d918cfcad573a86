#pragma once

// Notifications of nf_tables as values, and how they are read. This is the part of NftMonitor that
// needs no socket. One thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "netlink/nftables/nftables_types.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {

// Somebody changed something in a table of ours.
struct NftChange {
  NftTableKey table;
  // The socket that asked for it.
  std::uint32_t port = 0;

  friend auto operator<=>(const NftChange&, const NftChange&) = default;
};

struct NftEvents {
  std::set<NftChange> changes;
  std::optional<std::uint32_t> generation;  // of the last transaction that is told, of any table
  bool base_chains = false;  // somebody made, changed or removed a base chain of any table
  bool flow_rules = false;   // the same of a flowtable, or of a rule that adds to one
  bool overrun = false;      // notifications were lost: any of our tables may have changed

  bool empty() const { return changes.empty() && !overrun; }
};

class NftEventReader {
 public:
  // More changers between two readings are an overrun: a set of events stays small.
  static constexpr std::size_t kMostChanges = 256;

  explicit NftEventReader(std::vector<NftTableKey> tables) : tables_(std::move(tables)) {}

  // From now on watches these instead, and transactions after this generation.
  void watch(std::vector<NftTableKey> tables, std::uint32_t since) {
    tables_ = std::move(tables);
    since_ = since;
  }

  // Adds what a received datagram says about the tables.
  void take(ByteView datagram, NftEvents& events) const;

 private:
  std::vector<NftTableKey> tables_;
  std::optional<std::uint32_t> since_;
};

}  // namespace ipvsproxier::netlink

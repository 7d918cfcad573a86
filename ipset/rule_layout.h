#pragma once

// The byte layout of one rule in the kernel's legacy tables, shared by both families. Pure; any
// thread. Source: <linux/netfilter/x_tables.h>, struct ipt_entry, struct ip6t_entry.
//
//   |<------------------------- next_offset ------------------------->|
//   |<--------- target_offset ---------->|                            |
//   +----------------+---------+---------+----------------------------+
//   | ip(6)t_entry   | match 1 | match n | target                     |
//   +----------------+---------+---------+----------------------------+
//
//   match or target:  u16 size | char name[29] | u8 revision | data, zero padded to 8 bytes
//                     |<---------- 32 bytes --------------->|

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::ipset {

using Bytes = std::vector<std::uint8_t>;

// A match or a target with its data, padded or not.
struct Extension {
  std::string name;  // at most 28 bytes; for a target also a chain or a verdict
  std::uint8_t revision = 0;
  Bytes data;

  friend bool operator==(const Extension&, const Extension&) = default;
};

struct EntryParts {
  Bytes header;  // struct ipt_entry or ip6t_entry
  std::vector<Extension> matches;
  Extension target;
};

// sizeof(struct ipt_entry) or ip6t_entry.
std::size_t entry_header_size(netlink::Family family);

// `size` rounded up to the alignment of the tables.
std::size_t padded_size(std::size_t size);

// Puts the parts together and fills in the sizes and offsets.
Bytes join_entry(netlink::Family family, const EntryParts& parts);

// The parts of one entry, their data still padded; nullopt if sizes or offsets do not fit together
// or into `bytes`. What follows the entry in `bytes` is ignored.
std::optional<EntryParts> split_entry(netlink::Family family, std::span<const std::uint8_t> bytes);

}  // namespace ipvsproxier::ipset

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

// A match or a target with its data, with or without padding.
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

// `size` rounded up to the alignment of x_tables.
std::size_t padded_size(std::size_t size);

// Joins the parts and sets the sizes and offsets.
Bytes join_entry(netlink::Family family, const EntryParts& parts);

// The parts of one entry with padded data; nullopt if sizes or offsets contradict each other or
// exceed `bytes`. Bytes after the entry are ignored.
std::optional<EntryParts> split_entry(netlink::Family family, std::span<const std::uint8_t> bytes);

}  // namespace ipvsproxier::ipset

#pragma once

// Whose is a table of nf_tables that has our name? Judged by its contents, because tables that
// earlier versions made have no other mark. Pure; any thread.
//
// Ours has one of our chains that others lead to ("svc_keep"), or one of our sets as we make it:
// the first transaction of a start makes a set, and whoever mutilates our table leaves some of
// both. A table with the flag "owner" is not ours, as the kernel lets nobody change it but the
// process that made it (nft_table_has_owner(), net/netfilter/nf_tables_api.c, 6.1).

#include <cstdint>
#include <optional>
#include <string_view>

#include "ipset/nftables/filter_table.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::ipset {

enum class TableClaim : std::uint8_t {
  absent,
  empty,  // tells nothing of its maker, and holds nothing that could be lost: used, but no sign of
          // us
  ours,
  foreign,  // somebody else's: never changed, never removed
};

// `contents`: of the table of our name in this family.
TableClaim claim_of(const std::optional<FilterContents>& contents, netlink::Family family);

// Whether we give this name to a set; also to those of source ranges.
bool has_name_of_ours(std::string_view set, netlink::Family family);

// Why nothing can be written in a family, and what to do: `already`.
netlink::Error foreign_table(netlink::Family family);

}  // namespace ipvsproxier::ipset

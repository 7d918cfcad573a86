#pragma once

// The tables of this network namespace in which sets of ours may be. One thread.

#include <memory>
#include <optional>

#include "cmd/kernel_tables.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/sets/set_libipset.h"

namespace ipvsproxier::ctl {

struct SetTables {
  cmd::ProgrammedFilter programmed;
  std::optional<ipset::NftSetTable> of_nft;         // if our sets are in nf_tables
  std::unique_ptr<ipset::LibipsetTable> of_ip_set;  // nullptr: module ip_set is not loaded

  // That of the packet filter in use; nullptr if neither has sets.
  ipset::SetTable* of_filter() {
    if (of_nft) return &*of_nft;
    return of_ip_set.get();
  }
};

// Loads nothing.
netlink::Result<std::unique_ptr<SetTables>> open_set_tables();

}  // namespace ipvsproxier::ctl

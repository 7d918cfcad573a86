#include "cmd/ipvsctl/set_tables.h"

#include <utility>

#include "netlink/kernel_module.h"

namespace ipvsproxier::ctl {

netlink::Result<std::unique_ptr<SetTables>> open_set_tables() {
  auto programmed = cmd::open_programmed_filter();
  if (!programmed) return std::move(programmed.error());
  auto tables = std::make_unique<SetTables>(SetTables{
      .programmed = *std::move(programmed), .of_nft = std::nullopt, .of_ip_set = nullptr});
  const bool is_nft = tables->programmed.filter == ipset::PacketFilter::nftables;
  if (is_nft) tables->of_nft.emplace(*tables->programmed.nftables);
  // Opening it would load the module.
  const auto has_sets = netlink::kernel_has_module("ip_set");
  if (!has_sets) return has_sets.error();
  if (!*has_sets) return tables;
  auto opened = ipset::LibipsetTable::open();
  if (!opened) return std::move(opened.error());
  tables->of_ip_set = *std::move(opened);
  return tables;
}

}  // namespace ipvsproxier::ctl

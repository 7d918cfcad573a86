#pragma once

// ReadTable: a table of nf_tables with those of its sets that rules asked for, as
// sample_walk.h sees it. One thread.

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ipset/nft/sample_walk.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/nftables/foreign_steps.h"
#include "netlink/ip_address.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ipset {

class ReadTable {
 public:
  ReadTable(FilterTable& nftables, netlink::NftTableKey key, FilterContents contents)
      : nftables_(nftables), key_(std::move(key)), contents_(std::move(contents)) {}

  const netlink::NftTableKey& key() const { return key_; }
  const FilterContents& contents() const { return contents_; }
  // For packets of this family.
  FirewallTable view(netlink::Family family);
  using Steps = std::vector<std::vector<NftStep>>;
  // nullptr: there is no such chain.
  const Steps* rules(const std::string& chain, netlink::Family family);
  // nullptr: there is no such set, or it is too large to be judged, or it could not be read.
  const FilterSet* set(const std::string& name);

 private:
  bool read_elements(const std::string& name, std::vector<netlink::NftElement>& elements);

  FilterTable& nftables_;
  netlink::NftTableKey key_;
  FilterContents contents_;
  std::map<std::pair<std::string, netlink::Family>, Steps> steps_;  // of chains that packets met
  std::set<std::string> read_;
  std::set<std::string> unread_;
};

// Whether packets of the family meet a table of this one.
bool has_family(netlink::NftFamily table, netlink::Family family);

}  // namespace ipvsproxier::ipset

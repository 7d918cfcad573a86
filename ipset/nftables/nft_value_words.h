#pragma once

// Values of nf_tables in the words of nft(8): addresses, ports, verdicts, what is in a set. Pure;
// any thread. Used by foreign_words.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ipset/nftables/filter_table.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ipset {

// How a value is written.
enum class Form : std::uint8_t {
  hex,
  presence,  // of a route
  address,
  port,
  protocol,
  icmp_type,
  name,  // of a link
  number,
  state,
  status,
  type,  // of an address
  family,
};

bool is_flags(Form form);
std::string value_words(Form form, const netlink::Bytes& bytes);
std::string verdict_words(const netlink::NftVerdict& verdict);
std::string_view op_words(netlink::NftCompare::Op op);
// "{ 22, 80 }", with "..." behind the first kMostListed.
std::string elements_words(const FilterSet& set);

// A number in the host's order; nullopt for another size.
std::optional<std::uint32_t> host_number(const netlink::Bytes& bytes);

}  // namespace ipvsproxier::ipset

#include "proxier/plan/set_elements.h"

namespace ipvsproxier::plan {

SetElements::SetElements(const std::vector<SetElement>& elements) {
  std::vector<std::pair<ipset::SetId, ipset::PackedElement>> packed;
  std::vector<SetElement> others;
  packed.reserve(elements.size());
  for (const auto& [id, element] : elements) {
    if (const auto small = ipset::PackedElement::pack(element))
      packed.emplace_back(id, *small);
    else
      others.emplace_back(id, element);
  }
  packed_ = netlink::SortedVector(std::move(packed));
  others_ = netlink::SortedVector(std::move(others));
}

netlink::SortedVector<netlink::IpAddress> addresses_in(const SetElements& elements) {
  std::vector<netlink::IpAddress> addresses;
  for (const auto id : {ipset::SetId::ipvs_ips, ipset::SetId::nft_vips})
    elements.each_of(id, [&](const ipset::Element& element) {
      addresses.push_back(std::get<ipset::IpElement>(element).ip);
    });
  return netlink::SortedVector(std::move(addresses));
}

}  // namespace ipvsproxier::plan

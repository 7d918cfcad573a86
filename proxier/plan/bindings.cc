#include "proxier/plan/bindings.h"

#include <fmt/format.h>

namespace ipvsproxier::plan {

bool is_one_of(Place place, Places places) {
  switch (places) {
    case Places::first_link:
      return place == 0;
    case Places::all_links:
      return place < kLocalTable;
    case Places::local_table:
      return place == kLocalTable;
  }
  return false;
}

std::string place_name(Place place) {
  return place == kLocalTable ? "table local" : dummy_link(place);
}

std::string dummy_link(Place place) {
  return fmt::format("{}{}", kDummyLinks, place);
}

std::optional<Place> dummy_number(std::string_view link) {
  return netlink::number_in_series(link, kDummyLinks);
}

std::string to_string(const BindingOp& op) {
  const netlink::AddressOp request{op.add, op.binding.address};
  if (op.binding.place == kLocalTable) return netlink::local_route_text(request);
  auto text = netlink::to_string(request);
  if (op.binding.place != 0) text += " on " + dummy_link(op.binding.place);
  return text;
}

bool Bindings::contains(const netlink::IpAddress& address) const {
  const auto it = all_.lower_bound({address});
  return it != all_.end() && it->address == address;
}

std::vector<Place> Bindings::places(const netlink::IpAddress& address) const {
  std::vector<Place> result;
  for (auto it = all_.lower_bound({address}); it != all_.end() && it->address == address; ++it)
    result.push_back(it->place);
  return result;
}

std::size_t Bindings::count(Place place) const {
  return place < counts_.size() ? counts_[place] : 0;
}

AddressSet Bindings::addresses() const {
  AddressSet result;
  for (const auto& binding : all_) result.insert(binding.address);
  return result;
}

void Bindings::insert(const Binding& binding) {
  if (!all_.insert(binding)) return;
  if (binding.place >= counts_.size()) counts_.resize(binding.place + std::size_t{1});
  ++counts_[binding.place];
}

void Bindings::erase(const Binding& binding) {
  if (all_.erase(binding) != 0) --counts_[binding.place];
}

Place Rooms::next() {
  if (places_ == Places::local_table) return kLocalTable;
  const auto is_full = [&] {
    const auto holds = place_ == 0 ? kFirstLinkHolds : kFurtherLinkHolds;
    return taken_.count(place_) + given_ >= holds;
  };
  while (is_full() && is_one_of(static_cast<Place>(place_ + 1), places_)) {
    ++place_;
    given_ = 0;
  }
  ++given_;
  return place_;
}

}  // namespace ipvsproxier::plan

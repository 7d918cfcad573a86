#include "proxier/plan/namespace_share.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace ipvsproxier::plan {

namespace {

template <typename Services>
std::size_t sum_of(const Services& services) {
  std::size_t sum = 0;
  for (const auto& [name, asked] : services) sum += asked.amount;
  return sum;
}

// Eight steps from a power of two to the next.
std::size_t rounded_down(std::size_t share) {
  const auto step = std::max<std::size_t>(std::bit_floor(share) / 8, 1);
  return share / step * step;
}

}  // namespace

void NamespaceShare::set(const api::NamespacedName& name, std::size_t amount,
                         std::optional<std::int64_t> creation_time) {
  const auto space = asked_.find(name.ns);
  const bool has = space != asked_.end() && space->second.contains(name.name);
  if (amount == 0) {
    if (!has) return;
    total_ -= space->second.at(name.name).amount;
    space->second.erase(name.name);
    if (space->second.empty()) asked_.erase(space);
    changed_ = true;
    return;
  }
  const Asked wanted{amount, creation_time.value_or(std::numeric_limits<std::int64_t>::max())};
  auto& now = asked_[name.ns][name.name];
  if (now == wanted) return;
  total_ += amount - now.amount;
  now = wanted;
  changed_ = true;
}

// The most that a namespace gets: those that ask for less leave the rest to the others.
std::size_t NamespaceShare::share() const {
  std::vector<std::size_t> sums;
  for (const auto& [space, services] : asked_) sums.push_back(sum_of(services));
  std::ranges::sort(sums);
  std::size_t left = most_;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto share = left / (sums.size() - i);
    if (sums[i] > share) return rounded_down(share);
    left -= sums[i];
  }
  return left;
}

void NamespaceShare::add_beyond(const std::string& name_space, const Services& services,
                                std::size_t share, Names& beyond) const {
  std::vector<std::pair<std::string, Asked>> in_order(services.begin(), services.end());
  std::ranges::sort(in_order, {}, [](const auto& one) {
    return std::tuple(one.second.creation_time, std::string_view(one.first));
  });
  std::size_t used = 0;
  for (const auto& [name, asked] : in_order) {
    if (used + asked.amount > share)
      beyond.insert({name_space, name});
    else
      used += asked.amount;
  }
}

NamespaceShare::Names NamespaceShare::settle() {
  if (!std::exchange(changed_, false)) return {};
  Names before;
  std::swap(before, beyond_);
  if (total_ > most_) {
    const auto most = share();
    for (const auto& [space, services] : asked_) add_beyond(space, services, most, beyond_);
  }
  Names differing;
  std::ranges::set_symmetric_difference(before, beyond_, std::inserter(differing, differing.end()));
  return differing;
}

}  // namespace ipvsproxier::plan

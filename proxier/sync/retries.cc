#include "proxier/sync/retries.h"

#include <algorithm>

namespace ipvsproxier::sync {

namespace {

std::set<SetElement> flat(const plan::Scope& scope) {
  std::set<SetElement> result;
  for (const auto& [key, elements] : scope.elements)
    for (const auto& element : elements) result.emplace(key, element);
  return result;
}

template <typename Waits>
void earliest(const Waits& waits, std::optional<TimePoint>& next) {
  for (const auto& [key, wait] : waits)
    if (!next || wait.due < *next) next = wait.due;
}

}  // namespace

bool is_programmed(const plan::Scope& wanted, const plan::Scope& waiting, netlink::Family family) {
  return std::none_of(wanted.services.begin(), wanted.services.end(),
                      [&](const auto& key) {
                        return key.address.family() == family && waiting.services.contains(key);
                      }) &&
         std::none_of(wanted.addresses.begin(), wanted.addresses.end(), [&](const auto& address) {
           return address.family() == family && waiting.addresses.contains(address);
         });
}

template <typename Key, typename Keys>
void Retries::note(std::map<Key, Wait>& waits, const Keys& tried, const Keys& failed,
                   TimePoint now) {
  std::erase_if(waits, [&](const auto& entry) {
    return tried.contains(entry.first) && !failed.contains(entry.first);
  });
  for (const auto& key : failed) {
    auto& wait = waits[key];
    ++wait.failures;
    const double jitter = std::uniform_real_distribution<double>(0, 1)(random_);
    wait.due = now + backoff_.delay(wait.failures, jitter);
  }
}

void Retries::note(const plan::Scope& tried, const plan::Scope& failed, TimePoint now) {
  if (empty() && failed.empty()) return;
  note(services_, tried.services, failed.services, now);
  note(addresses_, tried.addresses, failed.addresses, now);
  note(elements_, flat(tried), flat(failed), now);
  note(rules_, tried.rules, failed.rules, now);
}

plan::Scope Retries::due(TimePoint now) const {
  plan::Scope scope;
  for (const auto& [key, wait] : services_)
    if (wait.due <= now) scope.services.insert(key);
  for (const auto& [key, wait] : addresses_)
    if (wait.due <= now) scope.addresses.insert(key);
  for (const auto& [key, wait] : elements_)
    if (wait.due <= now) scope.elements[key.first].insert(key.second);
  for (const auto& [key, wait] : rules_)
    if (wait.due <= now) scope.rules.insert(key);
  return scope;
}

plan::Scope Retries::all() const {
  return due(TimePoint::max());
}

std::optional<TimePoint> Retries::next() const {
  std::optional<TimePoint> next;
  earliest(services_, next);
  earliest(addresses_, next);
  earliest(elements_, next);
  earliest(rules_, next);
  return next;
}

bool Retries::waits(netlink::Family family) const {
  const auto any = [](const auto& waits, const auto& is_of) {
    return std::any_of(waits.begin(), waits.end(),
                       [&](const auto& entry) { return is_of(entry.first); });
  };
  return any(services_, [&](const auto& key) { return key.address.family() == family; }) ||
         any(addresses_, [&](const auto& address) { return address.family() == family; }) ||
         any(elements_, [&](const auto& element) { return element.first.family == family; }) ||
         rules_.contains(family);
}

std::size_t Retries::size() const {
  return services_.size() + addresses_.size() + elements_.size() + rules_.size();
}

}  // namespace ipvsproxier::sync

#pragma once

// SortedVector: a small ordered set in one block of memory, or, with a key member, an ordered map
// whose values contain their keys. Meant for the data of one Service or one virtual service: an
// insertion moves all later values. A value; any thread.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace ipvsproxier::netlink {

template <typename T, auto kKeyOf = std::identity()>
class SortedVector {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;

  SortedVector() = default;
  // Of values with equal keys the last one stays.
  SortedVector(std::initializer_list<T> values) : SortedVector(std::vector<T>(values)) {}
  explicit SortedVector(std::vector<T> values) : values_(std::move(values)) {
    const auto less = [](const T& a, const T& b) { return key_of(a) < key_of(b); };
    if (!std::is_sorted(values_.begin(), values_.end(), less))
      std::stable_sort(values_.begin(), values_.end(), less);
    const auto same = [](const T& a, const T& b) { return key_of(a) == key_of(b); };
    const auto last = std::unique(values_.rbegin(), values_.rend(), same);
    values_.erase(values_.begin(), last.base());
    values_.shrink_to_fit();
  }

  // False: a value with this key was present and stays.
  bool insert(T value) { return put(std::move(value), false); }
  // Replaces the value with the same key, if there is one.
  void insert_or_assign(T value) { put(std::move(value), true); }

  template <typename Key>
  const_iterator find(const Key& key) const {
    const auto it = lower_bound(key);
    return it != values_.end() && key_of(*it) == key ? it : values_.end();
  }
  template <typename Key>
  bool contains(const Key& key) const {
    return find(key) != values_.end();
  }
  template <typename Key>
  void erase(const Key& key) {
    if (const auto it = find(key); it != values_.end()) values_.erase(it);
  }

  const_iterator begin() const { return values_.begin(); }
  const_iterator end() const { return values_.end(); }
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }

  friend auto operator<=>(const SortedVector&, const SortedVector&) = default;

 private:
  static decltype(auto) key_of(const T& value) { return std::invoke(kKeyOf, value); }

  template <typename Key>
  const_iterator lower_bound(const Key& key) const {
    return std::lower_bound(values_.begin(), values_.end(), key,
                            [](const T& value, const Key& k) { return key_of(value) < k; });
  }

  bool put(T value, bool replace) {
    const auto place = values_.begin() + (lower_bound(key_of(value)) - values_.cbegin());
    if (place != values_.end() && key_of(*place) == key_of(value)) {
      if (replace) *place = std::move(value);
      return false;
    }
    const auto index = place - values_.begin();
    // There are very many of these vectors: reserve little.
    if (values_.size() == values_.capacity())
      values_.reserve(values_.size() + values_.size() / 8 + 1);
    values_.insert(values_.begin() + index, std::move(value));
    return true;
  }

  std::vector<T> values_;
};

// The values of `a` that are not in `b`.
template <typename T, auto kKeyOf>
std::vector<T> difference(const SortedVector<T, kKeyOf>& a, const SortedVector<T, kKeyOf>& b) {
  std::vector<T> result;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

}  // namespace ipvsproxier::netlink

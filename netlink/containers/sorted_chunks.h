#pragma once

// SortedChunks: a large ordered set of small values, stored as sorted vectors ("chunks"). It takes
// about a tenth more memory than the values alone, where a tree takes 48 bytes more for each node.
// An insertion or removal moves part of one chunk, and now and then the list of chunks. Every
// change invalidates iterators and references. A value; any thread.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace ipvsproxier::netlink {

template <typename T>
class SortedChunks {
 public:
  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    const_iterator() = default;
    reference operator*() const { return (*chunks_)[chunk_][place_]; }
    pointer operator->() const { return &**this; }
    const_iterator& operator++() {
      if (++place_ == (*chunks_)[chunk_].size()) {
        ++chunk_;
        place_ = 0;
      }
      return *this;
    }
    const_iterator operator++(int) { return std::exchange(*this, std::next(*this)); }
    friend bool operator==(const const_iterator&, const const_iterator&) = default;

   private:
    friend SortedChunks;
    const_iterator(const std::vector<std::vector<T>>& chunks, std::size_t chunk, std::size_t place)
        : chunks_(&chunks), chunk_(chunk), place_(place) {}

    const std::vector<std::vector<T>>* chunks_ = nullptr;
    std::size_t chunk_ = 0;
    std::size_t place_ = 0;
  };
  using value_type = T;

  SortedChunks() = default;
  SortedChunks(std::initializer_list<T> values) {
    for (const auto& value : values) insert(value);
  }

  // False: the value was present and stays.
  bool insert(const T& value) {
    const auto at = lower_bound(value);
    if (at != end() && *at == value) return false;
    ++size_;
    // Insert at the end of a chunk rather than before the first value of the next.
    auto chunk = at.chunk_;
    auto place = at.place_;
    if (place == 0 && chunk > 0) place = chunks_[--chunk].size();
    if (chunks_.empty()) chunks_.emplace_back();
    if (chunks_[chunk].size() == kMost) {
      // Ascending insertions leave full chunks; otherwise both halves keep space.
      const bool appends = place == kMost && chunk + 1 == chunks_.size();
      split(chunk, appends ? kMost : kMost / 2);
      if (const auto left = chunks_[chunk].size(); appends || place > left) {
        place -= left;
        ++chunk;
      }
    }
    auto& values = chunks_[chunk];
    if (values.size() == values.capacity())
      values.reserve(std::min(kMost, values.size() + values.size() / 8 + 1));
    values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), value);
    return true;
  }

  template <typename Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }
  void merge(const SortedChunks& other) { insert(other.begin(), other.end()); }

  // The number of removed values.
  std::size_t erase(const T& value) {
    const auto at = lower_bound(value);
    if (at == end() || *at != value) return 0;
    --size_;
    auto& values = chunks_[at.chunk_];
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(at.place_));
    if (values.empty())
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(at.chunk_));
    else if (values.size() <= values.capacity() / 2)
      values.shrink_to_fit();
    return 1;
  }

  // The first value for which `is_before` is false; the values must be partitioned by it.
  template <typename IsBefore>
  const_iterator partition_point(IsBefore is_before) const {
    const auto chunk = std::partition_point(
        chunks_.begin(), chunks_.end(),
        [&](const std::vector<T>& values) { return is_before(values.back()); });
    if (chunk == chunks_.end()) return end();
    const auto place = std::partition_point(chunk->begin(), chunk->end(), is_before);
    return {chunks_, static_cast<std::size_t>(chunk - chunks_.begin()),
            static_cast<std::size_t>(place - chunk->begin())};
  }
  const_iterator lower_bound(const T& value) const {
    return partition_point([&](const T& other) { return other < value; });
  }
  bool contains(const T& value) const {
    const auto at = lower_bound(value);
    return at != end() && *at == value;
  }

  const_iterator begin() const { return {chunks_, 0, 0}; }
  const_iterator end() const { return {chunks_, chunks_.size(), 0}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { *this = {}; }

  friend bool operator==(const SortedChunks& a, const SortedChunks& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  // Maximum size of a chunk: keeps moves in a chunk and moves of the list of chunks short.
  static constexpr std::size_t kMost = 256;

  void split(std::size_t chunk, std::size_t keep) {
    auto& values = chunks_[chunk];
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(keep);
    std::vector<T> right(middle, values.end());
    values.erase(middle, values.end());
    values.shrink_to_fit();
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(chunk) + 1, std::move(right));
  }

  std::vector<std::vector<T>> chunks_;  // no chunk is empty
  std::size_t size_ = 0;
};

}  // namespace ipvsproxier::netlink

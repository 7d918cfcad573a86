#pragma once

// ElementSet: the elements of one set. A large cluster has hundreds of thousands, so an IPv4
// element is packed into 16 bytes and unpacked on access; other elements are stored as they are.
// The order is that of std::set<Element> if all elements are of one kind. A value; any thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <vector>

#include "ipset/sets/set_types.h"
#include "netlink/containers/sorted_chunks.h"

namespace ipvsproxier::ipset {

// An element whose addresses, if any, are IPv4.
class PackedElement {
 public:
  static std::optional<PackedElement> pack(const Element& element);
  Element unpack() const;

  friend auto operator<=>(const PackedElement&, const PackedElement&) = default;

 private:
  std::uint32_t ip_ = 0;
  Protocol protocol_ = Protocol::tcp;
  std::uint8_t kind_ = 0;  // index of its alternative in the variant Element
  std::uint16_t port_ = 0;
  std::uint32_t ip2_ = 0;
  std::uint32_t length_ = 0;
};

class ElementSet {
 public:
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Element;

    reference operator*() const { return packed_ != last_packed_ ? packed_->unpack() : *other_; }
    const_iterator& operator++() {
      if (packed_ != last_packed_)
        ++packed_;
      else
        ++other_;
      return *this;
    }
    friend bool operator==(const const_iterator&, const const_iterator&) = default;

   private:
    friend ElementSet;
    netlink::SortedChunks<PackedElement>::const_iterator packed_;
    netlink::SortedChunks<PackedElement>::const_iterator last_packed_;
    netlink::SortedChunks<Element>::const_iterator other_;
  };
  using value_type = Element;

  ElementSet() = default;
  ElementSet(std::initializer_list<Element> elements)
      : ElementSet(elements.begin(), elements.end()) {}
  template <typename Iterator>
  ElementSet(Iterator first, Iterator last) {
    insert(first, last);
  }

  bool insert(const Element& element);  // false: it was present
  template <typename Iterator>
  void insert(Iterator first, Iterator last) {
    for (; first != last; ++first) insert(*first);
  }
  std::size_t erase(const Element& element);  // number of removed elements
  bool contains(const Element& element) const;
  // Those that adding `element` would replace.
  std::vector<Element> replaced_by(const Element& element) const;

  const_iterator begin() const;
  const_iterator end() const;
  std::size_t size() const { return packed_.size() + others_.size(); }
  bool empty() const { return size() == 0; }
  // The sum of weight_of() its elements.
  std::size_t weight() const;
  void clear() { *this = {}; }

  friend bool operator==(const ElementSet&, const ElementSet&) = default;

 private:
  netlink::SortedChunks<PackedElement> packed_;
  netlink::SortedChunks<Element> others_;
};

}  // namespace ipvsproxier::ipset

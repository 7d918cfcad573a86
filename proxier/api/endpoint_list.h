#pragma once

// EndpointList: the endpoints of one slice in one block of bytes, some 50 for each with its names.
// A cluster has hundreds of thousands, of which one Service's are looked at at a time. Values;
// usable on any thread.
//
//   flags | address, 4 or 16 bytes | node name | zone | target | if it has hints: zones | nodes
//   a text: its length in groups of 7 bits, its bytes; hints: how many, then that many texts

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::api {

// What an endpoint is made of.
struct Endpoint {
  netlink::IpAddress address;  // addresses[0]
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  std::string node_name;
  std::string zone;
  std::string target_name;              // targetRef.name, for inspection
  std::vector<std::string> zone_hints;  // hints.forZones
  std::vector<std::string> node_hints;  // hints.forNodes

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

// The same as it lies in a list: valid until that changes.
struct EndpointView {
  netlink::IpAddress address;
  bool ready = true;
  bool serving = true;
  bool terminating = false;
  std::string_view node_name;
  std::string_view zone;
  std::string_view target_name;
  std::vector<std::string_view> zone_hints;
  std::vector<std::string_view> node_hints;
};

class EndpointList {
 public:
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = EndpointView;
    using difference_type = std::ptrdiff_t;
    using pointer = const EndpointView*;
    using reference = const EndpointView&;

    reference operator*() const { return view_; }
    pointer operator->() const { return &view_; }
    const_iterator& operator++() {
      read();
      return *this;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.left_ == b.left_;
    }

   private:
    friend EndpointList;
    // `left`: endpoints from here on.
    const_iterator(std::string_view bytes, std::size_t left) : rest_(bytes), left_(left + 1) {
      read();
    }
    void read();

    std::string_view rest_;  // behind the one that it shows
    std::size_t left_;
    EndpointView view_;
  };

  EndpointList() = default;
  EndpointList(const std::vector<Endpoint>& endpoints);
  EndpointList(std::initializer_list<Endpoint> endpoints)
      : EndpointList(std::vector<Endpoint>(endpoints)) {}

  void push_back(const Endpoint& endpoint);
  // Gives back what was kept to grow.
  void shrink_to_fit() { bytes_.shrink_to_fit(); }

  const_iterator begin() const { return {bytes_, size_}; }
  const_iterator end() const { return {{}, 0}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::vector<Endpoint> unpack() const;
  // All that the list says: equal lists have equal bytes, others not.
  std::string_view bytes() const { return bytes_; }

  friend auto operator<=>(const EndpointList&, const EndpointList&) = default;

 private:
  std::string bytes_;
  std::uint32_t size_ = 0;
};

}  // namespace ipvsproxier::api

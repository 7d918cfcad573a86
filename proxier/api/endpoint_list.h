#pragma once

// EndpointList: the endpoints of one slice in one block of bytes, about 50 bytes for each endpoint
// with its names. A cluster has hundreds of thousands of endpoints, and only those of one Service
// are used at a time. Values; any thread.
//
//   flags | address, 4 or 16 bytes | node name | zone | target | with hints: zones | nodes
//   text: its length in groups of 7 bits, its bytes; hints: their number, then that many texts

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::api {

// One endpoint as a value of its own.
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

// An endpoint inside a list: valid until the list changes.
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
    // `left`: the number of endpoints from here on.
    const_iterator(std::string_view bytes, std::size_t left) : rest_(bytes), left_(left + 1) {
      read();
    }
    void read();

    std::string_view rest_;  // after the current endpoint
    std::size_t left_;
    EndpointView view_;
  };

  EndpointList() = default;
  EndpointList(const std::vector<Endpoint>& endpoints);
  EndpointList(std::initializer_list<Endpoint> endpoints)
      : EndpointList(std::vector<Endpoint>(endpoints)) {}

  void push_back(const Endpoint& endpoint);
  // Releases reserved memory.
  void shrink_to_fit() { bytes_.shrink_to_fit(); }

  const_iterator begin() const { return {bytes_, size_}; }
  const_iterator end() const { return {{}, 0}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::vector<Endpoint> unpack() const;
  // The list in encoded form: two lists are equal if their bytes are equal.
  std::string_view bytes() const { return bytes_; }

  friend auto operator<=>(const EndpointList&, const EndpointList&) = default;

 private:
  std::string bytes_;
  std::uint32_t size_ = 0;
};

}  // namespace ipvsproxier::api

#pragma once

// Where VIPs are bound: on dummy links of ours. kube-ipvs0 is kube-proxy's and takes all up to
// kFirstLinkHolds. Every further address costs the kernel a walk over all of its link
// (net/ipv4/devinet.c, __inet_insert_ifa; net/ipv6/addrconf.c, ipv6_link_dev_addr; 6.1), so those
// beyond go to kube-ipvs1, kube-ipvs2, ..., kFurtherLinkHolds each. Values; any thread.

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/ip_address.h"

namespace ipvsproxier::plan {

inline constexpr std::string_view kDummyLinks = "kube-ipvs";  // with a number behind
inline constexpr const char* kDummyLink = "kube-ipvs0";
inline constexpr std::size_t kFirstLinkHolds = 4096;
inline constexpr std::size_t kFurtherLinkHolds = 1024;

// A dummy link of ours, by its number.
using Place = std::uint16_t;

std::string dummy_link(Place place);
// nullopt: no name of a link of ours.
std::optional<Place> dummy_number(std::string_view link);

struct Binding {
  netlink::IpAddress address;
  Place place = 0;

  friend auto operator<=>(const Binding&, const Binding&) = default;
};

struct BindingOp {
  bool add = true;
  Binding binding;

  friend auto operator<=>(const BindingOp&, const BindingOp&) = default;
};

std::string to_string(const BindingOp& op);  // "add address 10.0.0.1/32", "... on kube-ipvs1"

// What is bound, and how much at each place. Ordered.
class Bindings {
 public:
  using Iterator = std::set<Binding>::const_iterator;

  bool contains(const netlink::IpAddress& address) const;
  std::vector<Place> places(const netlink::IpAddress& address) const;  // lowest first
  std::size_t count(Place place) const;
  std::set<netlink::IpAddress> addresses() const;

  void insert(const Binding& binding);
  void erase(const Binding& binding);

  Iterator begin() const { return all_.begin(); }
  Iterator end() const { return all_.end(); }
  bool empty() const { return all_.empty(); }

  friend bool operator==(const Bindings& one, const Bindings& other) {
    return one.all_ == other.all_;
  }

 private:
  std::set<Binding> all_;
  std::vector<std::size_t> counts_;  // by place
};

// Finds places for new addresses: the lowest with room; without `spread` always kube-ipvs0.
class Rooms {
 public:
  Rooms(const Bindings& taken, bool spread) : taken_(taken), spread_(spread) {}

  Place next();

 private:
  const Bindings& taken_;
  bool spread_;
  Place place_ = 0;
  std::size_t given_ = 0;  // at place_
};

}  // namespace ipvsproxier::plan

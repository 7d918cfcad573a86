#pragma once

// How virtual IPs (VIPs) are bound to the node: as addresses on our dummy links, or by our local
// routes. kube-ipvs0 is kube-proxy's link and takes up to kFirstLinkHolds addresses. Adding an
// address to a link costs the kernel a walk over all its addresses (net/ipv4/devinet.c,
// __inet_insert_ifa; net/ipv6/addrconf.c, ipv6_link_dev_addr; 6.1), so further addresses go to
// kube-ipvs1, kube-ipvs2, ..., up to kFurtherLinkHolds each. A local route costs a fraction of
// that, independent of their number. Values; any thread.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/containers/sorted_chunks.h"
#include "netlink/ip_address.h"
#include "netlink/links/link_types.h"

namespace ipvsproxier::plan {

using AddressSet = netlink::SortedChunks<netlink::IpAddress>;

inline constexpr std::string_view kDummyLinks = "kube-ipvs";  // followed by a number
inline constexpr const char* kDummyLink = "kube-ipvs0";
inline constexpr std::size_t kFirstLinkHolds = 4096;
inline constexpr std::size_t kFurtherLinkHolds = 1024;

// The number of one of our dummy links, or kLocalTable for the kernel's routing table "local".
using Place = std::uint16_t;
inline constexpr Place kLocalTable = netlink::kSeriesLength;

// The places that may be used for VIPs.
enum class Places : std::uint8_t { first_link, all_links, local_table };

bool is_one_of(Place place, Places places);
std::string place_name(Place place);  // "kube-ipvs0", "table local"
std::string dummy_link(Place place);  // for a link only
// The number of one of our dummy links; nullopt for another link.
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

// "add address 10.0.0.1/32", "... on kube-ipvs1", "add local route 10.0.0.1/32"
std::string to_string(const BindingOp& op);

// All bindings, in order, and their number at each place.
class Bindings {
 public:
  using Iterator = netlink::SortedChunks<Binding>::const_iterator;

  bool contains(const netlink::IpAddress& address) const;
  std::vector<Place> places(const netlink::IpAddress& address) const;  // lowest first
  std::size_t count(Place place) const;
  AddressSet addresses() const;

  void insert(const Binding& binding);
  void erase(const Binding& binding);

  Iterator begin() const { return all_.begin(); }
  Iterator end() const { return all_.end(); }
  bool empty() const { return all_.empty(); }

  friend bool operator==(const Bindings& one, const Bindings& other) {
    return one.all_ == other.all_;
  }

 private:
  netlink::SortedChunks<Binding> all_;
  std::vector<std::size_t> counts_;  // by place
};

// Chooses places for new addresses: the lowest of `places` with room.
class Rooms {
 public:
  Rooms(const Bindings& taken, Places places) : taken_(taken), places_(places) {}

  Place next();

 private:
  const Bindings& taken_;
  Places places_;
  Place place_ = 0;
  std::size_t given_ = 0;  // addresses given to place_
};

}  // namespace ipvsproxier::plan

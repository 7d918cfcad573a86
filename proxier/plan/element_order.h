#pragma once

// ElementOrder: when a transaction adds or removes an element (diff.h). Elements by which clients
// keep their source, are sent on or are dropped wait for real servers, or real servers for them.
// Pure; valid as long as the states that it is made of.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "ipset/sets/element_set.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/guarded.h"

namespace ipvsproxier::plan {

enum ElementTime : std::uint8_t {
  add_now,    // before anything is exposed
  mark,       // packets are masqueraded: before real servers come that need it
  let_in,     // sends clients on, or ends that they are dropped: behind new real servers
  drop,       // drops all clients but those that are sent on: behind the way of these
  keep_here,  // clients are no longer sent on: before the virtual services there go
  unmark,     // packets keep their source: behind the leave of real servers that need another
  remove,     // behind all that the element guards
  wait,       // not in this transaction: too little is known of the real servers that count
  kElementTimes
};

class ElementOrder {
 public:
  ElementOrder(const DesiredState& desired, const ActualState& actual)
      : desired_(desired), actual_(actual) {}

  // A real server of the planned virtual service is not planned. `stays`: nor does it leave, as an
  // object that cannot be read may ask for it. Returns whether in-cluster clients are to reach it
  // by another virtual service. Call before the functions below.
  bool note_leaving(const PlannedService& planned, const netlink::RealServer& server, bool stays);
  // The real servers of a planned virtual service could not be read. Likewise.
  void note_unread(const PlannedService& planned) { note(planned, kUnread); }

  // In-cluster clients of the virtual service are to be sent on, but nobody knows whether they are.
  bool is_way_unread(const netlink::VirtualServiceKey& service) const;

  ElementTime addition_of(SetKey set, const ipset::Element& element) const;
  ElementTime removal_of(SetKey set, const ipset::Element& element) const;

 private:
  // Real servers that are to leave a virtual service and get new connections so far.
  struct Leaving {
    bool stays = false;   // one stays
    bool unread = false;  // nobody knows which there are
  };
  static constexpr Leaving kUnread{true, true};

  void note(const PlannedService& planned, Leaving leaving);
  // The virtual service to which in-cluster clients are sent on serves already.
  bool is_way_whole(const netlink::VirtualServiceKey& service) const;
  ElementTime way_change(ipset::SetId set, const ipset::Element& element,
                         const netlink::VirtualServiceKey& from) const;
  std::optional<Leaving> leaving_of(ipset::SetId set, const ipset::Element& element) const;
  bool is_unread(ipset::SetId set, const ipset::Element& element) const;

  const DesiredState& desired_;
  const ActualState& actual_;
  std::map<netlink::VirtualServiceKey, Leaving> leaving_;
  // Those of node ports together, whatever their addresses.
  std::map<std::pair<netlink::Protocol, std::uint16_t>, Leaving> leaving_node_ports_;
};

// Whether the end of an element may wait for real servers and rules consult the set only while it
// has elements: few sets, whose elements are of policy Local or of external IPs.
bool may_wait(ipset::SetId set);

// With nf_tables verdict and source ranges are one element: the first ranges bind at once, whatever
// the verdict waits for. The element that the map has, with them; nullopt: it has them, or none are
// wanted.
std::optional<ipset::Element> restricted_first(const ipset::ElementSet& has,
                                               const ipset::Element& element);

}  // namespace ipvsproxier::plan

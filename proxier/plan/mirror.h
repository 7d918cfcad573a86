#pragma once

// Mirror: what the kernel holds as far as this process knows, and the operations whose answers were
// lost. Sync thread only.
//
// The Reconciler owns it; its readings of the kernel and the Applier may change it:
//   read_anew(), take()            what a reading found
//   commit()                       an operation that the kernel accepted
//   lose_added(), lose_removed()   an operation whose answer was lost
// The kernel may or may not have done an operation whose answer was lost, so it changes nothing at
// once. It is remembered until the kernel was read without a surprise (settle(), read_anew()), or
// until one of the two outcomes is the safe one to believe (assume_lost()).

#include <functional>
#include <set>
#include <utility>

#include "proxier/plan/actual_state.h"

namespace ipvsproxier::plan {

class Mirror {
 public:
  using Reading = std::function<void(ActualState&)>;
  using Removed = std::pair<SetKey, ipset::Element>;

  const ActualState& state() const { return state_; }

  // Forgets everything, then stores a reading of the whole kernel.
  void read_anew(const Reading& reading);
  // Stores a reading of a part of the kernel.
  void take(const Reading& reading) { reading(state_); }

  // ActualState::commit().
  template <typename... Operation>
  void commit(const Operation&... operation) {
    state_.commit(operation...);
  }
  // The answer was lost to the addition of a virtual service, the addition of an address, or the
  // removal of an element. Other lost answers leave nothing exposed or unguarded.
  void lose_added(const netlink::VirtualServiceKey& service) {
    added_services_.insert(service);
    state_.remembered.insert(service);
  }
  void lose_added(const Binding& binding) { added_bindings_.insert(binding); }
  void lose_removed(const Removed& element) { removed_elements_.insert(element); }

  // A reading of the whole kernel has met no surprise: all operations have come to pass.
  void settle();
  // Believes the safe one of the two outcomes of a lost answer, where there is one. A virtual
  // service or address that is not desired is believed to be there, so that it is removed before
  // its guards. An element that is desired is believed to be gone, so that it is added before what
  // it guards.
  void assume_lost(const DesiredState& desired);

  // The addresses that have other places in `found`, or are fixed in only one of the two. Both
  // must know their bindings.
  AddressSet bound_otherwise(const ActualState& found) const;

 private:
  ActualState state_;
  // Operations whose answers were lost.
  std::set<netlink::VirtualServiceKey> added_services_;
  std::set<Binding> added_bindings_;
  std::set<Removed> removed_elements_;
};

}  // namespace ipvsproxier::plan

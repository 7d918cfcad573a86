#pragma once

// Turns: whose changes are written next. A Service waits here while its plan has changed and not
// been compared with the kernel, or while not all of its changes could be written in one turn.
// Namespaces take turns, and within a namespace its Services, so that a Service with very much to
// write has others wait for one turn, and not for all of its changes. Sync thread only.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proxier/api/names.h"
#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"
#include "proxier/plan/scope.h"

namespace ipvsproxier::sync {

class Turns {
 public:
  using Name = api::NamespacedName;
  // Operations on the kernel after which a turn ends if others wait.
  static constexpr std::size_t kMost = 4096;

  // What one Service has to compare. Changes that belong to the node rather than to a Service have
  // an empty name.
  struct Part {
    Name service;
    plan::Scope scope;
  };
  // The keys to compare in one turn: those of the parts, and the rules.
  struct Turn {
    std::vector<Part> parts;
    plan::Scope scope;
  };

  // These keys of the Service must be compared with the kernel.
  void put(const Name& service, plan::Scope scope);
  // Nothing waits any longer.
  void clear();

  bool empty() const { return count_ == 0; }
  bool contains(const Name& service) const;

  // Takes the Services whose turn it is: as many as have together at most kMost keys and real
  // servers, and at least one. `size` returns the number of keys and real servers of a scope. The
  // rules of a family are compared in each turn, as what others wait for may have changed them.
  Turn take(const std::function<std::size_t(const plan::Scope&)>& size);

 private:
  struct Namespace {
    std::map<std::string, plan::Scope> services;
    std::string last;  // the Service that had the last turn
  };

  // A namespace without a waiting Service is kept until the next turn: what is put back then comes
  // after the others.
  std::map<std::string, Namespace> waiting_;
  std::size_t count_ = 0;  // of the Services that wait
  std::string last_;       // the namespace that had the last turn
};

// The number of keys of the scope, and of real servers that its virtual services have or are to
// have: an upper bound of the operations that it can need, except for elements and addresses that
// replace others.
std::size_t size_of(const plan::Scope& scope, const plan::DesiredState& desired,
                    const plan::ActualState& kernel);

}  // namespace ipvsproxier::sync

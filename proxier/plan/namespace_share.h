#pragma once

// NamespaceShare: which Services get something of which a node has so much (kernel memory). If
// Services ask for more, each namespace gets what it asks for, up to a share that is the same for
// all; in a namespace beyond its share older Services come first. The share is rounded down to a
// few steps, so that a small change in one namespace seldom moves what another has. The result
// depends on what is asked for alone, not on its order. Pure; one thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proxier/api/names.h"

namespace ipvsproxier::plan {

class NamespaceShare {
 public:
  explicit NamespaceShare(std::size_t most) : most_(most) {}

  using Names = std::set<api::NamespacedName>;

  // What the Service asks for; 0: nothing, or it is gone.
  void set(const api::NamespacedName& name, std::size_t amount,
           std::optional<std::int64_t> creation_time);
  // Returns the Services that are now in beyond() or no longer. Costs nothing unless Services ask
  // for too much, or did.
  Names settle();
  // Those that get nothing.
  const Names& beyond() const { return beyond_; }

 private:
  struct Asked {
    std::size_t amount = 0;
    std::int64_t creation_time = 0;
    friend bool operator==(const Asked&, const Asked&) = default;
  };
  using Services = std::map<std::string, Asked>;  // of one namespace, by name

  std::size_t share() const;
  void add_beyond(const std::string& name_space, const Services& services, std::size_t share,
                  Names& beyond) const;

  std::size_t most_;
  std::map<std::string, Services> asked_;
  std::size_t total_ = 0;
  bool changed_ = false;
  Names beyond_;
};

}  // namespace ipvsproxier::plan

#pragma once

// Whose the kernel's entries are, where somebody knows: the seam between what the kernel says and
// the cluster's names.

#include <functional>
#include <string>

#include "netlink/ipvs_types.h"

namespace ipvsproxier::inspect {

// An empty function knows nothing; an answer of "" is: not of this one.
struct EntryOwners {
  // "shop/web:http"
  std::function<std::string(const netlink::VirtualServiceKey&)> service;
  // "shop/web-7d4b9-x2x8z", or what else is at the address
  std::function<std::string(const netlink::RealServerKey&)> backend;

  std::string of(const netlink::VirtualServiceKey& key) const {
    return service ? service(key) : "";
  }
  std::string of(const netlink::RealServerKey& key) const { return backend ? backend(key) : ""; }
  bool known() const { return service || backend; }
};

}  // namespace ipvsproxier::inspect

#pragma once

// Unguarded: virtual services and addresses that must stay hidden because elements that filter or
// masquerade them are missing, with the cause. Sync thread only.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_types.h"
#include "netlink/ipvs/ipvs_types.h"
#include "proxier/sync/refusal.h"

namespace ipvsproxier::sync {

// Operations that were prevented, with the cause. If both an object and the node are the cause, the
// node counts.
template <typename Key>
using Causes = std::map<Key, Cause>;

template <typename Key>
void blame(Causes<Key>& causes, const Key& key, Cause cause) {
  const auto it = causes.try_emplace(key, cause).first;
  if (cause == Cause::node) it->second = cause;
}

template <typename Key>
std::optional<Cause> find_cause(const Causes<Key>& causes, const Key& key) {
  const auto it = causes.find(key);
  return it == causes.end() ? std::nullopt : std::optional(it->second);
}

class Unguarded {
 public:
  // The element could not be added, or was not tried.
  void note(ipset::SetId set, const ipset::Element& element, Cause cause);
  void note(const netlink::VirtualServiceKey& service, Cause cause);

  // Why it must stay hidden; nullopt: it may be exposed.
  std::optional<Cause> of(const netlink::VirtualServiceKey& service) const;
  std::optional<Cause> of(const netlink::IpAddress& address) const;

 private:
  Causes<netlink::IpAddress> addresses_;
  Causes<netlink::VirtualServiceKey> services_;
  Causes<std::pair<netlink::Protocol, std::uint16_t>> node_ports_;
};

}  // namespace ipvsproxier::sync

#include "proxier/sync/refusal.h"

#include <cerrno>

namespace ipvsproxier::sync {

namespace {

struct FamilyOf {
  netlink::Family operator()(const netlink::VirtualServiceKey& key) const {
    return key.address.family();
  }
  netlink::Family operator()(const netlink::IpAddress& address) const { return address.family(); }
  netlink::Family operator()(const SetElement& element) const { return element.first.family; }
};

struct Contains {
  const plan::Scope& scope;

  bool operator()(const netlink::VirtualServiceKey& key) const {
    return scope.services.contains(key);
  }
  bool operator()(const netlink::IpAddress& address) const {
    return scope.addresses.contains(address);
  }
  bool operator()(const SetElement& element) const {
    const auto set = scope.elements.find(element.first);
    return set != scope.elements.end() && set->second.contains(element.second);
  }
};

struct Insert {
  plan::Scope& scope;

  void operator()(const netlink::VirtualServiceKey& key) const { scope.services.insert(key); }
  void operator()(const netlink::IpAddress& address) const { scope.addresses.insert(address); }
  void operator()(const SetElement& element) const {
    scope.elements[element.first].insert(element.second);
  }
};

}  // namespace

Cause cause_of(bool adds, const netlink::Error& error) {
  const bool refused = adds && error.kind == netlink::ErrorKind::malformed &&
                       error.sys_errno != EBADMSG && error.sys_errno != EMSGSIZE;
  return refused ? Cause::object : Cause::node;
}

netlink::Family family_of(const Thing& thing) {
  return std::visit(FamilyOf{}, thing);
}

bool contains(const plan::Scope& scope, const Thing& thing) {
  return std::visit(Contains{scope}, thing);
}

void insert(plan::Scope& scope, const Thing& thing) {
  std::visit(Insert{scope}, thing);
}

}  // namespace ipvsproxier::sync

#include "proxier/sync/unguarded.h"

#include "proxier/plan/guarded.h"

namespace ipvsproxier::sync {

void Unguarded::note(ipset::SetId set, const ipset::Element& element, Cause cause) {
  const auto [service, address, port] = plan::guarded_by(set, element);
  if (service) blame(services_, *service, cause);
  if (address) blame(addresses_, *address, cause);
  if (const auto protocol = plan::protocol_of_ports(set); protocol && port)
    blame(node_ports_, {*protocol, *port}, cause);
}

void Unguarded::note(const netlink::VirtualServiceKey& service, Cause cause) {
  blame(services_, service, cause);
}

std::optional<Cause> Unguarded::of(const netlink::VirtualServiceKey& service) const {
  std::optional<Cause> result;
  for (const auto cause : {find_cause(addresses_, service.address), find_cause(services_, service),
                           find_cause(node_ports_, {service.protocol, service.port})})
    if (cause && result != Cause::node) result = cause;
  return result;
}

std::optional<Cause> Unguarded::of(const netlink::IpAddress& address) const {
  return find_cause(addresses_, address);
}

}  // namespace ipvsproxier::sync

#include "proxier/sync/kernel_state.h"

#include <utility>

#include "proxier/plan/node_info.h"

namespace ipvsproxier::sync {

namespace {

using netlink::ErrorKind;
using netlink::Family;

std::optional<std::map<netlink::RealServerKey, netlink::RealServer>> read_servers(
    Kernel& kernel, const netlink::VirtualServiceKey& key, Reading& reading) {
  auto listed = kernel.ipvs.list_servers(key);
  if (!listed) {
    reading.failures.push_back({"list real servers of " + to_string(key), listed.error()});
    return std::nullopt;
  }
  std::map<netlink::RealServerKey, netlink::RealServer> servers;
  for (auto& one : *listed) servers.insert_or_assign(one.server.key, one.server);
  return servers;
}

void read_services(Kernel& kernel, Reading& reading) {
  auto listed = kernel.ipvs.list_services();
  if (!listed) {
    reading.failures.push_back({"list virtual services", listed.error()});
    return;
  }
  auto& services = reading.state.services.emplace();
  for (auto& service : *listed) {
    if (service.key.fwmark != 0) continue;
    const auto key = service.key;
    services.emplace(key,
                     plan::ActualService{std::move(service), read_servers(kernel, key, reading)});
  }
}

// A set of this name that is made otherwise is somebody else's: it stays unknown.
bool is_ours(Kernel& kernel, const plan::SetKey& key, Reading& reading) {
  const auto spec = ipset::set_spec(key.id, key.family);
  auto status = kernel.sets.ensure(spec);  // of a set that exists: compares, writes nothing
  if (!status) reading.failures.push_back({"use set " + spec.name, std::move(status.error())});
  return status.has_value();
}

// What fails for one set for want of the module or the privilege fails for all: it is said once.
void read_sets(Kernel& kernel, const plan::DesiredState& desired, Reading& reading) {
  for (const auto& [key, elements] : desired.sets) {
    auto listed = kernel.sets.list(ipset::set_name(key.id, key.family));
    if (!listed) {
      const auto kind = listed.error().kind;
      reading.failures.push_back(
          {"list set " + ipset::set_name(key.id, key.family), std::move(listed.error())});
      if (kind == ErrorKind::missing || kind == ErrorKind::denied || kind == ErrorKind::io) return;
      continue;
    }
    if (*listed && !is_ours(kernel, key, reading)) continue;
    auto& set = reading.state.sets[key];
    if (*listed) set.emplace((*listed)->elements.begin(), (*listed)->elements.end());
  }
}

void read_rules(Kernel& kernel, const plan::DesiredState& desired, Reading& reading) {
  for (const auto& [family, parameters] : desired.rules)
    for (const auto& wanted : ipset::rules_for(family, parameters)) {
      auto listed = kernel.rules.list(wanted);
      if (listed)
        reading.state.rules.emplace(plan::TableKey{family, wanted.table}, std::move(*listed));
      else
        reading.failures.push_back({"list rules of " + std::string(to_string(family)) + " table " +
                                        std::string(to_string(wanted.table)),
                                    std::move(listed.error())});
    }
}

}  // namespace

void read_dummy_addresses(const std::vector<netlink::InterfaceAddress>& addresses,
                          plan::ActualState& state) {
  auto& bound = state.addresses.emplace();
  state.fixed_addresses.clear();
  for (const auto& [link, address, length] : addresses) {
    if (link != plan::kDummyLink) continue;
    bound.insert(address);
    const bool kernel_made = address.family() == Family::ipv6 && address.is_link_local();
    if (kernel_made || address.is_loopback() || length != netlink::address_bits(address.family()))
      state.fixed_addresses.insert(address);
  }
}

Reading read_kernel(Kernel& kernel, const plan::DesiredState& desired,
                    const std::vector<netlink::InterfaceAddress>& addresses, bool dummy_usable) {
  Reading reading;
  if (dummy_usable) read_dummy_addresses(addresses, reading.state);
  read_services(kernel, reading);
  read_sets(kernel, desired, reading);
  read_rules(kernel, desired, reading);
  return reading;
}

}  // namespace ipvsproxier::sync

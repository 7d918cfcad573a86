#include "proxier/sync/kernel_state.h"

#include <utility>

#include <fmt/format.h>

#include "proxier/plan/node_info.h"

namespace ipvsproxier::sync {

namespace {

using netlink::ErrorKind;
using netlink::Family;

std::optional<plan::RealServers> read_servers(Kernel& kernel, const netlink::VirtualServiceKey& key,
                                              Reading& reading) {
  auto listed = kernel.ipvs.list_servers(key);
  if (!listed) {
    reading.failures.push_back({"list real servers of " + to_string(key), listed.error()});
    return std::nullopt;
  }
  std::vector<netlink::RealServer> servers;
  servers.reserve(listed->size());
  for (const auto& one : *listed) servers.push_back(one.server);
  return plan::RealServers(std::move(servers));
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
    services.emplace(key, plan::ActualService{service, read_servers(kernel, key, reading)});
  }
}

// A set of this name but another kind or family is somebody else's: it stays unknown.
bool is_ours(const ipset::ListedSet& listed, const ipset::SetSpec& wanted, Reading& reading) {
  const auto& found = listed.spec;
  const bool has_family = wanted.kind != ipset::SetKind::bitmap_port;
  if (found.kind == wanted.kind && (!has_family || found.family == wanted.family)) return true;
  const auto words = [](const ipset::SetSpec& spec) {
    return fmt::format("{} {}", netlink::to_string(spec.family), ipset::to_string(spec.kind));
  };
  reading.failures.push_back(
      {"use set " + wanted.name,
       netlink::Error{ErrorKind::already, 0,
                      fmt::format("it is {}, wanted {}", words(found), words(wanted))}});
  return false;
}

void keep_set(ipset::ListedSet& listed, const plan::SetKey& key, plan::ActualState& state) {
  state.sets[key].emplace(listed.elements.begin(), listed.elements.end());
  const auto capacity = listed.options.empty() ? listed.spec.max_elements : 0;
  if (capacity != ipset::kSetCapacity) state.odd_capacities[key] = capacity;
}

// What fails for one set for want of the module or the privilege fails for all: it is said once.
void read_sets(Kernel& kernel, const plan::DesiredState& desired, Reading& reading) {
  for (const auto& [key, elements] : desired.sets) {
    const auto spec = ipset::set_spec(key.id, key.family);
    auto listed = kernel.sets.list(spec.name);
    if (!listed) {
      const auto kind = listed.error().kind;
      reading.failures.push_back({"list set " + spec.name, std::move(listed.error())});
      if (kind == ErrorKind::missing || kind == ErrorKind::denied || kind == ErrorKind::io) return;
      continue;
    }
    if (!*listed)
      reading.state.sets[key];
    else if (is_ours(**listed, spec, reading))
      keep_set(**listed, key, reading.state);
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

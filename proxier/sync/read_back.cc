#include "proxier/sync/read_back.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "proxier/plan/bindings.h"
#include "proxier/plan/diff.h"
#include "proxier/plan/ownership.h"

namespace ipvsproxier::sync {

namespace {

using ipset::Element;
using ipset::ElementSet;
using ipset::ListedSet;
using netlink::ErrorKind;
using netlink::ListedServer;
using netlink::VirtualServiceKey;
using plan::ActualState;
using plan::SetKey;

// A set of this name with another kind or family belongs to another program.
std::optional<Failure> not_ours(const ipset::SetSpec& found, const ipset::SetSpec& wanted) {
  const bool has_family = wanted.kind != ipset::SetKind::bitmap_port;
  if (found.kind == wanted.kind && (!has_family || found.family == wanted.family))
    return std::nullopt;
  const auto words = [](const ipset::SetSpec& spec) {
    return fmt::format("{} {}", netlink::to_string(spec.family), ipset::to_string(spec.kind));
  };
  return Failure{"use set " + wanted.name,
                 netlink::Error{ErrorKind::already, 0,
                                fmt::format("it is {}, wanted {}", words(found), words(wanted))},
                 wanted.family};
}

// A missing module or privilege fails for all sets. Without an answer, each further set would wait
// as long again.
bool fails_for_all(ErrorKind kind) {
  return kind == ErrorKind::missing || kind == ErrorKind::denied || kind == ErrorKind::io ||
         kind == ErrorKind::timeout;
}

// The value for ActualState::odd_capacities; nullopt: kube-proxy's capacity.
std::optional<std::uint32_t> odd_capacity(const std::optional<ListedSet>& listed) {
  if (!listed) return std::nullopt;
  const auto capacity = listed->options.empty() ? listed->spec.max_elements : 0;
  return capacity == ipset::kSetCapacity ? std::nullopt : std::optional(capacity);
}

bool has_capacity(const SetKey& key, const std::optional<std::uint32_t>& odd,
                  const ActualState& mirror) {
  const auto believed = mirror.odd_capacities.find(key);
  return odd ==
         (believed == mirror.odd_capacities.end() ? std::nullopt : std::optional(believed->second));
}

// For a set that appeared or disappeared, includes all its desired elements.
ElementSet differing(const std::optional<ElementSet>& found,
                     const std::optional<ElementSet>& believed, const ElementSet& wanted) {
  const auto& has = believed ? *believed : wanted;
  if (!found) return wanted;
  std::vector<Element> result;
  std::set_symmetric_difference(found->begin(), found->end(), has.begin(), has.end(),
                                std::back_inserter(result));
  if (!believed) result.insert(result.end(), wanted.begin(), wanted.end());
  return {result.begin(), result.end()};
}

// The desired sets in the order in which elements are added, without the first `count`. A flushed
// set is filled again before the next one is read.
std::vector<SetKey> keys_from(std::size_t count, const plan::DesiredState& desired) {
  std::vector<SetKey> keys;
  for (const auto id : ipset::sets_of(desired.packet_filter))
    for (const auto family : netlink::kFamilies)
      if (desired.sets.contains({family, id})) keys.push_back({family, id});
  keys.erase(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count));
  return keys;
}

}  // namespace

PartRead ReadBack::step(Kernel& kernel, const plan::DesiredState& desired,
                        const ActualState& mirror) {
  switch (stage_) {
    case Stage::sets:
      return read_set(kernel, desired, mirror);
    case Stage::rules:
      return read_rules(kernel, desired, mirror);
    case Stage::services:
      return read_services(kernel, desired, mirror);
    case Stage::servers:
      return read_servers(kernel, mirror);
    case Stage::done:
      break;
  }
  return {};
}

void ReadBack::SetReading::note(const plan::SetChange& change) {
  if (!set || set->spec.name != ipset::set_name(change.set.id, change.set.family)) return;
  for (const auto& op : change.ops) written.insert(op.element);
}

bool ReadBack::SetReading::take(ipset::SetTable::SetPart part) {
  elements.insert(part.set.elements.begin(), part.set.elements.end());
  part.set.elements = {};
  set = std::move(part.set);
  return part.last;
}

// Begins or continues the listing of a set; true after its last part.
netlink::Result<bool> ReadBack::list_set(ipset::SetTable& sets, const std::string& name) {
  if (set_reading_) {
    auto more = sets.next_list();
    if (more) return set_reading_->take(*std::move(more));
    if (more.error().kind != ErrorKind::busy) return more.error();
    // The set was replaced meanwhile: list it from the beginning.
  }
  set_reading_.emplace();
  auto begun = sets.begin_list(name);
  if (!begun) return begun.error();
  return !*begun || set_reading_->take(**std::move(begun));
}

PartRead ReadBack::read_set(Kernel& kernel, const plan::DesiredState& desired,
                            const ActualState& mirror) {
  PartRead part;
  const auto unread = keys_from(sets_read_, desired);
  if (unread.empty()) {
    stage_ = Stage::rules;
    return part;
  }
  const auto key = unread.front();
  const auto spec = ipset::set_spec(key.id, key.family);
  auto listed = list_set(kernel.sets, spec.name);
  if (listed && !*listed) return part;
  ++sets_read_;
  auto reading = *std::exchange(set_reading_, {});
  if (!listed) {
    const bool all = fails_for_all(listed.error().kind);
    if (all) stage_ = Stage::rules;
    part.failures.push_back({"list set " + spec.name, std::move(listed.error()),
                             all ? std::nullopt : std::optional(key.family)});
    part.take = [unknown = all ? unread : std::vector{key}](ActualState& state) {
      for (const auto& set : unknown) {
        state.sets.erase(set);
        state.odd_capacities.erase(set);
      }
    };
    return part;
  }
  if (reading.set)
    if (auto failure = not_ours(reading.set->spec, spec)) {
      if (!ipset::is_made_late(key.id) || !desired.sets.at(key).empty())
        part.failures.push_back(*std::move(failure));
      part.take = [key](ActualState& state) {
        state.sets.erase(key);
        state.foreign_sets.insert(key);
      };
      return part;
    }
  compare_set(std::move(reading), *desired.sets.find(key), mirror, part);
  return part;
}

void ReadBack::compare_set(SetReading reading, const std::pair<const SetKey, ElementSet>& desired,
                           const ActualState& mirror, PartRead& part) {
  const auto& key = desired.first;
  const auto odd = odd_capacity(reading.set);
  std::optional<ElementSet> found;
  if (reading.set) found = std::move(reading.elements);
  const auto believed = mirror.sets.find(key);
  if (believed == mirror.sets.end()) {
    part.look_at_all = true;
  } else {
    // The listing may be too old for elements that were written since it began.
    if (found && believed->second)
      for (const auto& element : reading.written) {
        if (believed->second->contains(element))
          found->insert(element);
        else
          found->erase(element);
      }
    if (found == believed->second && has_capacity(key, odd, mirror)) return;
    part.differs.elements[key] = differing(found, believed->second, desired.second);
  }
  part.take = [key, odd, found = std::move(found)](ActualState& state) {
    state.sets[key] = found;
    state.foreign_sets.erase(key);
    state.odd_capacities.erase(key);
    if (odd) state.odd_capacities[key] = *odd;
  };
}

PartRead ReadBack::read_rules(Kernel& kernel, const plan::DesiredState& desired,
                              const ActualState& mirror) {
  PartRead part;
  const auto next = family_ ? desired.rules.upper_bound(*family_) : desired.rules.begin();
  if (next == desired.rules.end()) {
    stage_ = Stage::services;
    return part;
  }
  const auto family = next->first;
  family_ = family;
  std::map<plan::TableKey, std::optional<ipset::TableRules>> found;
  for (const auto& wanted : ipset::rules_for(desired.packet_filter, family, next->second)) {
    const plan::TableKey key{family, wanted.table};
    auto listed = kernel.rules.list(wanted);
    if (!listed) {
      part.failures.push_back(
          {fmt::format("list rules of {} table {}", to_string(family), to_string(wanted.table)),
           std::move(listed.error()), family});
      found[key] = std::nullopt;
      continue;
    }
    const auto believed = mirror.rules.find(key);
    if (believed == mirror.rules.end()) {
      // Rules are repaired before anything that they guard is compared.
      part.look_at_all = true;
      part.news.rules.insert(family);
    } else if (believed->second == *listed) {
      continue;
    } else {
      part.differs.rules.insert(family);
    }
    found[key] = *std::move(listed);
  }
  if (found.empty()) return part;
  part.take = [found = std::move(found)](ActualState& state) {
    for (const auto& [key, rules] : found) {
      state.rules.erase(key);
      if (rules) state.rules.emplace(key, *rules);
    }
  };
  return part;
}

void ReadBack::note(const plan::Transaction& transaction) {
  for (const auto& phase : transaction.phases) {
    const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work);
    if (listing_ && ops != nullptr)
      for (const auto& op : *ops) written_.insert(netlink::service_of(op));
    const auto* changes = std::get_if<std::vector<plan::SetChange>>(&phase.work);
    if (set_reading_ && changes != nullptr)
      for (const auto& change : *changes) set_reading_->note(change);
  }
}

// Whether the service is ours and not as the mirror has it. The listing may be too old for services
// that were written since it began.
bool ReadBack::is_news(const netlink::VirtualService& service, const plan::DesiredState& desired,
                       const ActualState& mirror) {
  if (service.key.fwmark != 0 || written_.contains(service.key)) return false;
  const auto owner = plan::owner_of(service.key, desired, mirror);
  if (owner == plan::Ownership::foreign) foreign_.insert(service.key);
  if (owner != plan::Ownership::ours || !mirror.services) return owner == plan::Ownership::ours;
  const auto believed = mirror.services->find(service.key);
  return believed == mirror.services->end() || believed->second.service != service;
}

// After a listing, which may miss services: those known before are looked for, some at a time.
std::set<VirtualServiceKey> ReadBack::all_foreign(Kernel& kernel, const ActualState& mirror) const {
  auto all = foreign_;
  std::size_t asked = 0;
  for (const auto& key : mirror.foreign) {
    if (all.contains(key)) continue;
    const auto gone = [&](const auto& list) {
      return !list && list.error().kind == ErrorKind::missing;
    };
    if (asked++ >= kServicesAStep || !gone(kernel.ipvs.list_servers(key))) all.insert(key);
  }
  return all;
}

// Lists in parts, except if nothing is known: an unknown service must not be taken for absent.
netlink::Result<netlink::IpvsTable::ServicesPart> ReadBack::list_services(
    Kernel& kernel, const ActualState& mirror) {
  if (listing_) return kernel.ipvs.next_services();
  if (mirror.services) return kernel.ipvs.begin_services();
  auto all = kernel.ipvs.list_services();
  if (!all) return all.error();
  return netlink::IpvsTable::ServicesPart{.services = *std::move(all), .last = true};
}

// Services that disappeared are found when their real servers are listed.
PartRead ReadBack::read_services(Kernel& kernel, const plan::DesiredState& desired,
                                 const ActualState& mirror) {
  PartRead part;
  auto listed = list_services(kernel, mirror);
  listing_ = listed && !listed->last;
  if (!listing_) stage_ = Stage::servers;
  if (!listed) {
    part.failures.push_back({"list virtual services", std::move(listed.error())});
    part.take = [](ActualState& state) { state.lose_services(); };
    return part;
  }
  part.look_at_all = !mirror.services;
  std::erase_if(listed->services, [&](const auto& one) { return !is_news(one, desired, mirror); });
  if (mirror.services)
    for (const auto& service : listed->services) part.differs.services.insert(service.key);
  auto foreign = listing_ ? mirror.foreign : all_foreign(kernel, mirror);
  part.foreign_read = foreign != mirror.foreign;
  if (listed->services.empty() && mirror.services && !part.foreign_read) return part;
  part.take = [found = std::move(listed->services),
               foreign = std::move(foreign)](ActualState& state) {
    if (!state.services) state.services.emplace();
    for (const auto& service : found) (*state.services)[service.key].service = service;
    state.foreign = foreign;
    std::erase_if(state.foreign, [&](const auto& key) { return state.services->contains(key); });
  };
  return part;
}

PartRead ReadBack::read_servers(Kernel& kernel, const ActualState& mirror) {
  PartRead part;
  if (!mirror.services) {
    stage_ = Stage::done;
    return part;
  }
  // nullopt: the virtual service does not exist.
  std::map<VirtualServiceKey, std::optional<std::vector<ListedServer>>> found;
  std::vector<VirtualServiceKey> unknown;
  auto next = service_ ? mirror.services->upper_bound(*service_) : mirror.services->begin();
  std::size_t count = 0;
  bool silent = false;
  for (; count < kServicesAStep && next != mirror.services->end() && !silent; ++count, ++next) {
    const auto& [key, believed] = *next;
    service_ = key;
    auto listed = kernel.ipvs.list_servers(key);
    if (listed) {
      std::sort(listed->begin(), listed->end(), [](const auto& one, const auto& other) {
        return one.server.key < other.server.key;
      });
      if (believed.servers && plan::is_listing(*believed.servers, *listed)) continue;
      (believed.servers ? part.differs : part.news).services.insert(key);
      part.look_at_all = part.look_at_all || !believed.servers;
      found.emplace(key, *std::move(listed));
    } else if (listed.error().kind == ErrorKind::missing) {
      part.differs.services.insert(key);
      part.look_at_all = part.look_at_all || !believed.servers;
      found.emplace(key, std::nullopt);
    } else {
      silent = listed.error().kind == ErrorKind::timeout;
      unknown.push_back(key);
      part.failures.push_back(
          {"list real servers of " + to_string(key), listed.error(), key.address.family()});
    }
  }
  // If nothing can be read, the rest need not be tried now.
  const bool none = count > 0 && unknown.size() == count;
  if (none || silent || next == mirror.services->end()) stage_ = Stage::done;
  if (found.empty() && unknown.empty()) return part;
  part.take = [found = std::move(found), unknown = std::move(unknown)](ActualState& state) {
    for (const auto& key : unknown) state.services->at(key).servers.reset();
    for (const auto& [key, servers] : found) {
      if (servers)
        state.services->at(key).servers = plan::listed_servers(*servers);
      else
        state.services->erase(key);
    }
  };
  return part;
}

namespace {

// Elements in the packet filter that is not ours are traces of virtual services of ours as well.
void read_other_filter(const Kernel& kernel, ActualState& state, std::vector<Failure>& failures) {
  if (!kernel.other || kernel.other->sets == nullptr) return;
  for (const auto id : ipset::sets_of(kernel.other->filter))
    for (const auto family : netlink::kFamilies) {
      const auto name = ipset::set_name(id, family);
      auto listed = kernel.other->sets->list(name);
      if (!listed)
        failures.push_back({"list set " + name, std::move(listed.error()), family});
      else if (*listed)
        state.sets[{family, id}].emplace((*listed)->elements.begin(), (*listed)->elements.end());
    }
}

}  // namespace

std::vector<Failure> read_kernel(Kernel& kernel, const plan::DesiredState& desired,
                                 ActualState& state) {
  std::vector<Failure> failures;
  read_other_filter(kernel, state, failures);
  ReadBack read_back;
  for (read_back.begin(); read_back.running();) {
    auto part = read_back.step(kernel, desired, state);
    if (part.take) part.take(state);
    std::move(part.failures.begin(), part.failures.end(), std::back_inserter(failures));
  }
  return failures;
}

netlink::Result<BoundAddresses> list_bound(netlink::LinkTable& links) {
  auto addresses = links.list_addresses();
  if (!addresses) return addresses.error();
  auto routes = links.list_local_routes();
  if (!routes) return routes.error();
  return BoundAddresses{*std::move(addresses), *std::move(routes)};
}

void take_bindings(const BoundAddresses& all, const plan::Differences& differences,
                   plan::ActualState& state) {
  auto& bound = state.addresses.emplace();
  state.fixed_addresses.clear();
  for (const auto& route : all.local_routes) bound.insert({route, plan::kLocalTable});
  for (const auto& [link, address, length, on_dummy] : all.addresses) {
    const auto number = plan::dummy_number(link);
    // The name kube-ipvs0 suffices, without a look at the link type.
    if (!number || (!on_dummy && *number != 0)) continue;
    bound.insert({address, *number});
    const bool special = address.is_loopback() ||
                         (address.family() == netlink::Family::ipv6 && address.is_link_local());
    if (length != netlink::address_bits(address.family()) ||
        (special && !differences.unbind_special))
      state.fixed_addresses.insert(address);
  }
}

}  // namespace ipvsproxier::sync

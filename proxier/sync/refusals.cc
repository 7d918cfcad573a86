#include "proxier/sync/refusals.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "proxier/plan/guarded.h"

namespace ipvsproxier::sync {

namespace {

using netlink::Family;

constexpr loop::Backoff kPauses{std::chrono::seconds(1), std::chrono::minutes(5)};
// Pauses if the node is taken to be at fault: as for other failures of the node.
constexpr loop::Backoff kNodePauses{std::chrono::seconds(1), std::chrono::seconds(30)};
constexpr std::size_t kToldAtOnce = 20;    // refusals with a line of their own
constexpr std::size_t kServicesNamed = 5;  // Services named in one line
constexpr std::size_t kManyAtLeast = 10;
constexpr std::size_t kNamespacesAtLeast = 3;

// The Services that ask for the entry, if that can be determined.
std::set<api::NamespacedName> services_of(const Thing& thing, const plan::Planner& planner) {
  std::set<api::NamespacedName> services;
  const auto add = [&](const netlink::VirtualServiceKey& key) {
    if (const auto* owner = planner.owner_of(key)) services.insert(*owner);
  };
  std::optional<netlink::IpAddress> address;
  if (const auto* key = std::get_if<netlink::VirtualServiceKey>(&thing)) add(*key);
  if (const auto* bound = std::get_if<netlink::IpAddress>(&thing)) address = *bound;
  if (const auto* element = std::get_if<SetElement>(&thing)) {
    const auto guarded = plan::guarded_by(element->first.id, element->second);
    if (guarded.service) add(*guarded.service);
    address = guarded.address;
  }
  if (!address) return services;
  const auto& all = planner.desired().services;
  for (auto it = all.lower_bound({*address}); it != all.end() && it->first.address == *address;
       ++it)
    add(it->first);
  return services;
}

// Whose lines of the log a refusal takes.
std::string_view owner_of(const Refusals::Entry& entry) {
  return entry.services.empty() ? std::string_view() : entry.services.begin()->ns;
}

std::size_t count_of(Family family, const plan::DesiredState& desired) {
  const auto count = std::count_if(
      desired.services.begin(), desired.services.end(),
      [family](const auto& service) { return service.first.address.family() == family; });
  return static_cast<std::size_t>(count);
}

// Multicast, reserved, "this host" and unspecified addresses, and of IPv6 link-local ones: refused
// on every node, except for a link-local address that the node itself has.
bool is_of_no_host(const netlink::IpAddress& address) {
  static const std::array kNobodys{
      *netlink::IpPrefix::parse("224.0.0.0/3"), *netlink::IpPrefix::parse("0.0.0.0/8"),
      *netlink::IpPrefix::parse("ff00::/8"), *netlink::IpPrefix::parse("fe80::/10"),
      *netlink::IpPrefix::parse("::/128")};
  return std::ranges::any_of(kNobodys, [&](const auto& range) { return range.contains(address); });
}

bool have_namespaces(std::size_t count, Family family, const plan::Planner& planner) {
  std::set<std::string_view> found;
  for (const auto& [key, planned] : planner.desired().services) {
    if (key.address.family() != family) continue;
    if (const auto* owner = planner.owner_of(key)) found.insert(owner->ns);
    if (found.size() >= count) return true;
  }
  return false;
}

// Whether the author of one namespace cannot have caused the refusals of these Services alone.
// Where there are few namespaces, every refusal counts.
bool is_beyond_one_namespace(const std::set<api::NamespacedName>& refused, Family family,
                             const plan::Planner& planner) {
  if (refused.size() < kManyAtLeast) return false;
  std::map<std::string_view, std::size_t> counts;
  for (const auto& service : refused) ++counts[service.ns];
  if (counts.size() < kNamespacesAtLeast)
    return !have_namespaces(kNamespacesAtLeast, family, planner);
  return std::ranges::all_of(counts,
                             [&](const auto& one) { return one.second * 2 <= refused.size(); });
}

bool same_reason(const Refusals::Entry& one, const Refusals::Entry& other) {
  return one.services == other.services && one.error == other.error;
}

}  // namespace

std::set<std::string> lacking_services(const api::Problems& problems, const Refusals& refusals) {
  constexpr std::string_view kService = "Service ";
  std::set<std::string> names;
  for (const auto& problem : problems)
    if (problem.severity == api::Severity::error && problem.object.starts_with(kService))
      names.insert(problem.object);
  for (const auto& [thing, entry] : refusals.all())
    for (const auto& service : entry.services)
      names.insert(std::string(kService) + api::to_string(service));
  return names;
}

std::string to_string(const Refusals::Entry& entry) {
  std::string text;
  std::size_t named = 0;
  for (const auto& service : entry.services) {
    if (named++ == kServicesNamed) break;
    text += (text.empty() ? "Service " : ", ") + api::to_string(service);
  }
  if (entry.services.size() > kServicesNamed)
    text += fmt::format(" and {} more", entry.services.size() - kServicesNamed);
  if (!text.empty()) text += ": ";
  text += netlink::to_string(entry.error);
  return entry.more == 0 ? text : text + fmt::format(", and {} more of it", entry.more);
}

void Refusals::set_links(const std::vector<netlink::InterfaceAddress>& addresses) {
  broadcasts_.clear();
  for (const auto& one : addresses)
    for (const auto& end : netlink::network_ends(one)) broadcasts_.insert(end);
}

// Whether the object is at fault, because no host could have the address that it names.
bool Refusals::is_own_fault(const Thing& thing, const plan::DesiredState& desired) const {
  if (const auto* address = std::get_if<netlink::IpAddress>(&thing)) return is_of_no_host(*address);
  const auto* key = std::get_if<netlink::VirtualServiceKey>(&thing);
  if (key == nullptr) return false;
  const auto planned = desired.services.find(*key);
  return is_of_no_host(key->address) ||
         (planned != desired.services.end() &&
          std::ranges::any_of(planned->second.servers, [this](const auto& server) {
            return is_of_no_host(server.address) || broadcasts_.contains(server.address);
          }));
}

// Removes the earlier refusals of all tried entries: they no longer hold.
Refusals::Touched Refusals::take(const plan::Scope& tried) {
  Touched before;
  const auto forget = [&](const Thing& thing) {
    if (auto entry = entries_.extract(thing)) before[thing] = std::move(entry.mapped());
  };
  if (entries_.empty()) return before;
  for (const auto& key : tried.services) forget(key);
  for (const auto& address : tried.addresses) forget(address);
  for (const auto& [set, elements] : tried.elements)
    for (const auto& element : elements) forget(SetElement{set, element});
  return before;
}

void Refusals::note(const plan::Scope& tried, const std::vector<Refusal>& refused,
                    const plan::Planner& planner, TimePoint now) {
  auto before = take(tried);
  if (before.empty() && refused.empty()) return;
  for (const auto& refusal : refused) {
    if (auto entry = entries_.extract(refusal.thing))
      before.try_emplace(refusal.thing, std::move(entry.mapped()));
    before.try_emplace(refusal.thing);
  }
  for (const auto& [thing, error] : refused) {
    const auto [it, is_new] = entries_.try_emplace(thing);
    auto& entry = it->second;
    if (!is_new) {
      ++entry.more;
      continue;
    }
    const auto& old = before[thing];
    entry.services = services_of(thing, planner);
    entry.error = error;
    entry.own_fault = is_own_fault(thing, planner.desired());
    entry.failures = (old ? old->failures : 0) + 1;
    const auto& pauses = too_many(family_of(thing)) ? kNodePauses : kPauses;
    entry.due = now + pauses.delay(entry.failures, 0);
  }
  next_.reset();
  for (const auto& [thing, entry] : entries_)
    if (!next_ || entry.due < *next_) next_ = entry.due;
  tell(before, now);
}

void Refusals::tell(const Touched& before, TimePoint now) {
  using spdlog::level::info;
  using spdlog::level::warn;
  std::size_t told = 0;
  std::string_view last;  // the last owner, whose lines of the log the summary takes
  for (const auto& [thing, old] : before) {
    const auto entry = entries_.find(thing);
    if (entry != entries_.end()) last = owner_of(entry->second);
    if (entry == entries_.end()) {
      if (old && told++ < kToldAtOnce)
        log_.log(info, "no longer refused: " + to_string(*old), now, owner_of(*old));
    } else if (!old || !same_reason(*old, entry->second)) {
      if (told++ < kToldAtOnce)
        log_.log(warn,
                 fmt::format("the kernel refuses this one: {}; all else goes on; it is tried again "
                             "when the object changes, and ever more rarely",
                             to_string(entry->second)),
                 now, owner_of(entry->second));
    }
  }
  if (told > kToldAtOnce)
    log_.log(warn,
             fmt::format("{} more that the kernel refuses, or no longer: see ipvsctl status",
                         told - kToldAtOnce),
             now, last);
}

plan::Scope Refusals::due(TimePoint now) const {
  plan::Scope scope;
  if (!next_ || *next_ > now) return scope;
  for (const auto& [thing, entry] : entries_)
    if (entry.due <= now) insert(scope, thing);
  return scope;
}

RefusedCounts Refusals::counts(Family family) const {
  RefusedCounts counts;
  for (const auto& [thing, entry] : entries_) {
    if (family_of(thing) != family) continue;
    counts.virtual_services += std::holds_alternative<netlink::VirtualServiceKey>(thing) ? 1 : 0;
    counts.addresses += std::holds_alternative<netlink::IpAddress>(thing) ? 1 : 0;
    counts.elements += std::holds_alternative<SetElement>(thing) ? 1 : 0;
  }
  return counts;
}

Refusals::Affected Refusals::affected(Family family, const plan::DesiredState& desired) const {
  Affected found;
  for (const auto& [thing, entry] : entries_) {
    if (family_of(thing) != family) continue;
    std::size_t count = 0;
    if (const auto* key = std::get_if<netlink::VirtualServiceKey>(&thing))
      if (desired.services.contains(*key)) ++(entry.own_fault ? found.own_faults : count);
    if (const auto* address = std::get_if<netlink::IpAddress>(&thing); address && !entry.own_fault)
      for (auto it = desired.services.lower_bound({*address});
           it != desired.services.end() && it->first.address == *address; ++it)
        count += contains(it->first) ? 0 : 1;
    found.virtual_services += count;
    if (count > 0) found.services.insert(entry.services.begin(), entry.services.end());
  }
  return found;
}

void Refusals::judge(const plan::Planner& planner, TimePoint now) {
  if (entries_.empty() && too_many_.empty()) return;
  for (const auto family : netlink::kFamilies) {
    const auto& desired = planner.desired();
    const auto [refused, own_faults, services] = affected(family, desired);
    const bool many = refused * 10 > count_of(family, desired) - own_faults &&
                      is_beyond_one_namespace(services, family, planner);
    if (many && too_many_.insert(family).second)
      log_.log(spdlog::level::err,
               fmt::format("{}: the kernel refuses {} virtual services, or addresses or real "
                           "servers of them, more than a tenth of all: taken for a fault of this "
                           "node",
                           netlink::to_string(family), refused),
               now);
    if (!many && too_many_.erase(family) > 0)
      log_.log(spdlog::level::info,
               fmt::format("{}: refusals are no longer taken for a fault of this node",
                           netlink::to_string(family)),
               now);
  }
}

}  // namespace ipvsproxier::sync

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "test/support/fake_daemon.h"

namespace ipvsproxier::test {

using ipset::Element;
using ipset::SetId;
using netlink::Family;
using netlink::VirtualServiceKey;

namespace {

// The virtual service that an element names, or its address; nothing where it speaks of endpoints.
struct Subject {
  SetId set;
  std::optional<VirtualServiceKey> service;
  std::optional<netlink::IpAddress> address;

  void operator()(const ipset::IpElement& element) { address = element.ip; }
  void operator()(const ipset::PortElement&) {}
  template <typename T>
  void operator()(const T& element) {
    if (set != SetId::loop_back) service = {element.ip, element.protocol, element.port};
  }
};

Subject subject_of(SetId set, const Element& element) {
  Subject subject{set, {}, {}};
  std::visit(subject, element);
  return subject;
}

bool guards_node_port(SetId set, const Element& element, const VirtualServiceKey& key) {
  const auto* port = std::get_if<ipset::PortElement>(&element);
  if (!port || port->port != key.port) return false;
  if (set == SetId::node_port_tcp || set == SetId::node_port_local_tcp)
    return key.protocol == netlink::Protocol::tcp;
  return (set == SetId::node_port_udp || set == SetId::node_port_local_udp) &&
         key.protocol == netlink::Protocol::udp;
}

// Who keeps his source, is sent on, or is dropped, by the policy of a Service.
bool is_policy_set(SetId set) {
  using enum SetId;
  const auto all = {load_balancer_local, node_port_local_tcp, node_port_local_udp,
                    node_port_local_sctp_hash, nft_in_cluster};
  return std::ranges::find(all, set) != all.end();
}

// None of a set that the packet filter does not have.
const ipset::ElementSet& elements_of(const plan::DesiredState& desired, const plan::SetKey& key) {
  static const ipset::ElementSet kNone;
  const auto found = desired.sets.find(key);
  return found == desired.sets.end() ? kNone : found->second;
}

plan::SetKey set_key(const std::string& name) {
  for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables})
    for (auto family : netlink::kFamilies)
      for (auto id : ipset::sets_of(filter))
        if (ipset::set_name(id, family) == name) return {family, id};
  throw std::invalid_argument("no set of ours: " + name);
}

std::optional<netlink::RealServer> server_of(const plan::PlannedService& planned,
                                             const netlink::RealServerKey& key) {
  const auto found = planned.servers.find(key);
  if (found == planned.servers.end()) return std::nullopt;
  return planned.server(static_cast<std::size_t>(found - planned.servers.begin()));
}

}  // namespace

KernelWatch::KernelWatch(FakeIpvsTable& ipvs, FakeLinkTable& links, FakeSetTable& sets,
                         FakeRuleTable& rules)
    : ipvs_(ipvs), links_(links), sets_(sets), rules_(rules) {
  ipvs.after = [this](const auto& op) { saw(op); };
  links.after = [this](const auto& op) { saw(op); };
  sets.after = [this](const auto& set, const auto& op) { saw(set, op); };
  rules.after = [this](auto family) { saw_rules(family); };
  rules.after_others = [this] {
    covered_.clear();
    consulted_.clear();
  };
  // What is done behind the daemon's back cannot be known before the next listing.
  sets.faults.was_late = [&sets] { sets.note_foreign_hands(); };
  rules.faults.was_late = [&rules] { rules.note_foreign_hands(); };
}

void KernelWatch::expect(plan::DesiredState desired) {
  for (const auto& [key, service] : desired_.services)
    if (!desired.services.contains(key) && ipvs_.contains(key))
      leaving_.try_emplace(key, guards_[key]);
  for (const auto& address : desired_.addresses)
    if (!desired.addresses.contains(address) && links_.is_bound(address))
      leaving_addresses_.insert(address);
  std::erase_if(leaving_, [&](const auto& one) { return desired.services.contains(one.first); });
  std::erase_if(leaving_addresses_,
                [&](const auto& address) { return desired.addresses.contains(address); });
  desired_ = std::move(desired);
  covered_.clear();
  consulted_.clear();
  for (const auto& [family, parameters] : desired_.rules) note_consulted(family);
  guards_.clear();
  for (const auto& [set, elements] : desired_.sets)
    for (const auto& element : elements)
      if (const auto subject = subject_of(set.id, element); subject.service)
        guards_[*subject.service].emplace(set, element);
  for (const auto& [key, planned] : desired_.services) {
    if (planned.facet != plan::Facet::node_port) continue;
    const auto family = key.address.family();
    for (auto id : {SetId::node_port_tcp, SetId::node_port_udp, SetId::node_port_local_tcp,
                    SetId::node_port_local_udp})
      for (const auto& element : elements_of(desired_, {family, id}))
        if (guards_node_port(id, element, key))
          guards_[key].emplace(plan::SetKey{family, id}, element);
  }
}

// Whether the kernel has all desired rules, and those of these sets.
bool KernelWatch::rules_cover(Family family, const std::set<SetId>& sets) const {
  auto parameters = desired_.rules.at(family);
  parameters.non_empty.insert(sets.begin(), sets.end());
  for (const auto& wanted : ipset::rules_for(desired_.packet_filter, family, parameters)) {
    const auto actual = rules_.read(wanted);
    if (actual.jumps.size() != wanted.jumps.size()) return false;
    for (const auto& chain : wanted.chains) {
      const auto found = std::find_if(actual.chains.begin(), actual.chains.end(),
                                      [&](const auto& one) { return one.name == chain.name; });
      if (found == actual.chains.end()) return false;
      for (const auto& rule : chain.rules)
        if (std::find(found->rules.begin(), found->rules.end(), rule) == found->rules.end())
          return false;
    }
  }
  return true;
}

void KernelWatch::exposed(const std::string& what, Family family, const Guards& guards) {
  for (const auto& [set, element] : guards)
    if (const auto name = ipset::set_name(set.id, set.family);
        !sets_.contains(name, element) && !sets_.is_unseen(name))
      broken.push_back(what + " without " + ipset::set_name(set.id, set.family) + " " +
                       ipset::to_string(element));
  const auto [covered, unknown] = covered_.try_emplace(family);
  if (unknown) covered->second = rules_cover(family, {});
  if (!covered->second && !rules_.is_unseen(family)) broken.push_back(what + " without its rules");
}

void KernelWatch::saw(const netlink::IpvsOp& op) {
  if (const auto* add = std::get_if<netlink::AddService>(&op)) {
    const auto& key = add->service.key;
    if (ipvs_.contains(key)) exposed(to_string(op), key.address.family(), guards_[key]);
  } else if (const auto* gone = std::get_if<netlink::DeleteService>(&op)) {
    if (desired_.services.contains(gone->key) || !desired_.complete)
      broken.push_back(to_string(op));
    if (!ipvs_.contains(gone->key)) leaving_.erase(gone->key);
  } else if (const auto* edit = std::get_if<netlink::EditServer>(&op)) {
    const auto planned = desired_.services.find(edit->service);
    const auto wanted = planned == desired_.services.end()
                            ? std::nullopt
                            : server_of(planned->second, edit->server.key);
    // Annotations may ask for weight 0.
    const bool is_drained = wanted ? wanted->weight != 0 : !desired_.complete;
    if (edit->server.weight == 0 && is_drained) broken.push_back(to_string(op));
  } else if (const auto* leaves = std::get_if<netlink::DeleteServer>(&op)) {
    const auto planned = desired_.services.find(leaves->service);
    if (planned != desired_.services.end() && planned->second.servers.contains(leaves->server))
      broken.push_back(to_string(op));
  }
}

void KernelWatch::saw(const netlink::AddressOp& op) {
  const bool bound = links_.is_bound(op.address);
  if (op.add) {
    const auto family = op.address.family();
    if (!bound) return;
    exposed(to_string(op), family,
            {{plan::SetKey{family, ipset::vip_set(desired_.packet_filter)},
              ipset::IpElement{op.address}}});
    bool wanted = false;
    bool present = false;
    for (auto it = desired_.services.lower_bound({op.address});
         it != desired_.services.end() && it->first.address == op.address; ++it) {
      wanted = true;
      present = present || ipvs_.contains(it->first) || ipvs_.is_unseen(it->first);
    }
    if (wanted && !present) broken.push_back(to_string(op) + " without a virtual service");
    return;
  }
  if ((desired_.addresses.contains(op.address) && !bound) || !desired_.complete)
    broken.push_back(to_string(op));
  if (!bound) leaving_addresses_.erase(op.address);
}

void KernelWatch::saw(const std::string& set, const ipset::ElementOp& op) {
  if (op.add) return;
  const auto key = set_key(set);
  const auto what = "remove " + set + " " + ipset::to_string(op.element);
  // Of what is desired, who keeps his source or is sent on may change.
  const bool of_desired = is_policy_set(key.id) && is_desired(key, op.element);
  if ((!desired_.complete && !of_desired) || desired_.sets.at(key).contains(op.element))
    broken.push_back(what);
  if (sets_.contains(set, op.element)) return;
  const auto subject = subject_of(key.id, op.element);
  if (subject.service && leaving_.contains(*subject.service) &&
      ipvs_.contains(*subject.service) &&  // a late removal may have come to pass
      !only_drains(*subject.service))
    broken.push_back(what + " before its virtual service");
  if (subject.address && leaving_addresses_.contains(*subject.address) &&
      links_.is_bound(*subject.address))  // others may have taken it
    broken.push_back(what + " before its address");
}

// Whether the virtual service has real servers, and none of them takes new connections: their
// removal waits for room (sync/trash.h), and nothing is shown any longer.
bool KernelWatch::only_drains(const netlink::VirtualServiceKey& service) const {
  const auto servers = ipvs_.servers(service);
  return !servers.empty() &&
         std::ranges::all_of(servers, [](const auto& one) { return one.server.weight == 0; });
}

// Whether the virtual service, or node port, that the element is about is desired.
bool KernelWatch::is_desired(const plan::SetKey& set, const ipset::Element& element) const {
  return std::ranges::any_of(desired_.services, [&](const auto& one) {
    return subject_of(set.id, element).service == one.first ||
           guards_node_port(set.id, element, one.first);
  });
}

// The rules of sets that guard what leaves: those that are there stay.
void KernelWatch::note_consulted(Family family) {
  std::set<SetId> now;
  std::set<SetId> not_covered;
  for (const auto& [key, guards] : leaving_) {
    if (key.address.family() != family || !ipvs_.contains(key) || only_drains(key)) continue;
    for (const auto& [set, element] : guards) {
      if (!sets_.contains(ipset::set_name(set.id, set.family), element)) continue;
      const bool is_new = !now.contains(set.id) && !not_covered.contains(set.id);
      if (is_new && !rules_cover(family, {set.id})) not_covered.insert(set.id);
      if (!not_covered.contains(set.id)) {
        now.insert(set.id);
      } else if (consulted_[family].contains(set.id)) {
        broken.push_back("rules of " + ipset::set_name(set.id, family) + " go before " +
                         to_string(key));
      }
    }
  }
  consulted_[family] = std::move(now);
}

void KernelWatch::saw_rules(Family family) {
  covered_.erase(family);
  note_consulted(family);
}

}  // namespace ipvsproxier::test

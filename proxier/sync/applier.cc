#include "proxier/sync/applier.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "proxier/plan/bindings.h"

namespace ipvsproxier::sync {

namespace {

using netlink::AddServer;
using netlink::AddService;
using netlink::EditService;
using netlink::IpvsOp;
using netlink::Protocol;
using netlink::service_of;
using plan::SetChange;

// The virtual service whose scheduler the kernel must find for this operation: the only thing that
// it can miss then.
const netlink::VirtualServiceKey* wants_scheduler(const IpvsOp& op) {
  if (const auto* add = std::get_if<AddService>(&op)) return &add->service.key;
  if (const auto* edit = std::get_if<EditService>(&op)) return &edit->service.key;
  return nullptr;
}

// What an element filters or masquerades.
struct Guarded {
  std::optional<netlink::VirtualServiceKey> service;
  std::optional<netlink::IpAddress> address;
  std::optional<std::uint16_t> port;  // on every address

  void operator()(const ipset::IpElement& element) { address = element.ip; }
  void operator()(const ipset::PortElement& element) { port = element.port; }
  template <typename Element>
  void operator()(const Element& element) {
    service = netlink::VirtualServiceKey{element.ip, element.protocol, element.port};
  }
};

Guarded guarded_by(ipset::SetId set, const ipset::Element& element) {
  Guarded guarded;
  if (set != ipset::SetId::loop_back) std::visit(guarded, element);  // that speaks of endpoints
  return guarded;
}

// Of the sets that hold node ports.
std::optional<Protocol> protocol_of_ports(ipset::SetId set) {
  switch (set) {
    case ipset::SetId::node_port_tcp:
    case ipset::SetId::node_port_local_tcp:
      return Protocol::tcp;
    case ipset::SetId::node_port_udp:
    case ipset::SetId::node_port_local_udp:
      return Protocol::udp;
    default:
      return std::nullopt;
  }
}

std::string words_of(const ipset::SetSpec& spec, const ipset::ElementOp& op) {
  return fmt::format("{} {} {}", op.add ? "add" : "remove", spec.name,
                     ipset::to_string(op.element));
}

std::string words_of(const ipset::TableRules& table) {
  return fmt::format("write rules of {} table {}", netlink::to_string(table.family),
                     ipset::to_string(table.table));
}

// Whether there was no answer: what was asked for may have happened.
bool is_lost(const netlink::Error& error) {
  return error.kind == netlink::ErrorKind::overrun || error.kind == netlink::ErrorKind::timeout;
}

// Whether the answer shows that the kernel may not be as it is believed to be.
bool is_suspect(const netlink::Error& error) {
  return is_lost(error) || error.kind == netlink::ErrorKind::already ||
         error.kind == netlink::ErrorKind::missing;
}

// What is done about a hundred thousand operations is done in parts: the memory for one serves for
// all.
template <typename Op, typename Work>
void for_parts(std::span<const Op> ops, Work work) {
  constexpr std::size_t kPart = 1024;
  for (; !ops.empty(); ops = ops.subspan(std::min(kPart, ops.size())))
    work(ops.first(std::min(kPart, ops.size())));
}

// Those that `is_held` answers false for; asked once for each, in order. They are copied to `some`
// only if there are others.
template <typename Op, typename Held>
std::span<const Op> without_held(std::span<const Op> ops, std::vector<Op>& some, Held is_held) {
  std::size_t held = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (is_held(ops[i])) {
      if (held++ == 0) some.assign(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (held > 0) {
      some.push_back(ops[i]);
    }
  }
  return held > 0 ? std::span<const Op>(some) : ops;
}

// Two phases of few IPVS operations that follow each other: one datagram does for both.
std::optional<std::vector<IpvsOp>> joined_ops(const std::vector<plan::Phase>& phases,
                                              std::size_t first) {
  constexpr std::size_t kMost = 32;
  if (first + 1 >= phases.size()) return std::nullopt;
  const auto* one = std::get_if<std::vector<IpvsOp>>(&phases[first].work);
  const auto* next = std::get_if<std::vector<IpvsOp>>(&phases[first + 1].work);
  if (one == nullptr || next == nullptr || one->size() + next->size() > kMost) return std::nullopt;
  auto joined = *one;
  joined.insert(joined.end(), next->begin(), next->end());
  return joined;
}

}  // namespace

Written& Written::operator+=(const Written& other) {
  ipvs += other.ipvs;
  links += other.links;
  addresses += other.addresses;
  elements += other.elements;
  sets += other.sets;
  rule_tables += other.rule_tables;
  return *this;
}

void Perhaps::merge(Perhaps other) {
  services.merge(other.services);
  bindings.merge(other.bindings);
}

Outcome Applier::apply(const plan::Transaction& transaction, const std::stop_token& stop) {
  const auto& phases = transaction.phases;
  for (std::size_t i = 0; i < phases.size() && !stop.stop_requested(); ++i) {
    if (auto joined = joined_ops(phases, i)) {
      run(*joined);
      ++i;
    } else {
      std::visit([this](const auto& work) { run(work); }, phases[i].work);
    }
    progress_();
  }
  return std::move(outcome_);
}

// `count` is that of outcome_.failed.
void Applier::fail(std::size_t& count, std::string what, netlink::Error error) {
  ++count;
  outcome_.suspect = outcome_.suspect || is_suspect(error);
  outcome_.failures.push_back({std::move(what), std::move(error)});
}

void Applier::run(const std::vector<ipset::SetSpec>& specs) {
  for (const auto& spec : specs) {
    auto status = ask(sets_silent_, 1, [&] { return std::vector{kernel_.sets.ensure(spec)}; })[0];
    if (status) {
      ++outcome_.written.sets;
      state_.commit(spec);
    } else {
      // One that could not be replaced is as good as it was.
      if (is_missing(spec.name)) failed_sets_.insert(spec.name);
      fail(outcome_.failed.sets, "make set " + spec.name, std::move(status.error()));
    }
  }
}

bool Applier::is_missing(const std::string& set) const {
  return std::any_of(state_.sets.begin(), state_.sets.end(), [&](const auto& entry) {
    return !entry.second && ipset::set_name(entry.first.id, entry.first.family) == set;
  });
}

// Whether something that its rules guard could not be removed.
bool Applier::keeps_rules(netlink::Family family) const {
  return std::any_of(kept_addresses_.begin(), kept_addresses_.end(),
                     [&](const auto& address) { return address.family() == family; }) ||
         std::any_of(kept_services_.begin(), kept_services_.end(),
                     [&](const auto& key) { return key.address.family() == family; });
}

void Applier::run(const std::vector<ipset::TableRules>& tables) {
  for (const auto& table : tables) {
    if (keeps_rules(table.family)) {
      outcome_.held.push_back(words_of(table));
      outcome_.unsettled.rules.insert(table.family);
      continue;
    }
    auto changed = write_rules(table);
    if (changed) {
      outcome_.written.rule_tables += *changed ? 1 : 0;
    } else {
      outcome_.unsettled.rules.insert(table.family);
      families_without_rules_.insert(table.family);
      outcome_.rules_failed.insert(table.family);
      fail(outcome_.failed.rule_tables, words_of(table), std::move(changed.error()));
    }
  }
}

// The match "ipvs" is the one extension that only few virtual services need. A kernel without it
// gets the other rules, and those few stay hidden.
netlink::Result<bool> Applier::write_rules(const ipset::TableRules& table) {
  auto changed = kernel_.rules.apply(table);
  if (changed) state_.commit(table);
  if (changed || changed.error().kind != netlink::ErrorKind::missing) return changed;
  auto reduced = table;
  std::set<netlink::VirtualServiceKey> unguarded;
  for (auto& chain : reduced.chains)
    std::erase_if(chain.rules, [&](const ipset::Rule& rule) {
      const auto* match =
          rule.matches.empty() ? nullptr : std::get_if<ipset::IpvsMatch>(&rule.matches[0]);
      if (match) unguarded.insert({match->address, match->protocol, match->port});
      return match != nullptr;
    });
  if (unguarded.empty()) return changed;
  auto without = kernel_.rules.apply(reduced);
  if (!without) return changed;
  state_.commit(reduced);
  outcome_.unsettled.rules.insert(table.family);
  outcome_.rules_failed.insert(table.family);
  unguarded_services_.merge(unguarded);
  fail(outcome_.failed.rule_tables, "write the rules of KUBE-IPVS-OUT-FILTER",
       std::move(changed.error()));
  return without;
}

void Applier::run(const std::vector<SetChange>& changes) {
  for (const auto& change : changes) {
    const auto& key = change.set;
    const auto& ops = change.ops;
    const auto name = ipset::set_name(key.id, key.family);
    if (failed_sets_.contains(name)) {
      for (const auto& op : ops) {
        guard_failed(key, op.element);
        outcome_.unsettled.elements[key].insert(op.element);
      }
      outcome_.held.push_back(fmt::format("{} elements of {}", ops.size(), name));
      continue;
    }
    for_parts<ipset::ElementOp>(ops, [&](const auto& part) { run_part(key, part); });
  }
}

// Nothing more is asked of a table that fell silent: each request would wait as long again.
template <typename Request>
std::vector<netlink::Status> Applier::ask(bool& silent, std::size_t count, Request request) {
  if (silent) return std::vector<netlink::Status>(count, netlink::not_sent());
  auto statuses = request();
  silent = netlink::timed_out(statuses);
  return statuses;
}

void Applier::run_part(const plan::SetKey& key, std::span<const ipset::ElementOp> ops) {
  const auto spec = ipset::set_spec(key.id, key.family);
  std::vector<ipset::ElementOp> some;
  const auto tried = without_held(ops, some, [&](const ipset::ElementOp& op) {
    if (op.add || !still_guards(key, op.element)) return false;
    outcome_.held.push_back(words_of(spec, op));
    outcome_.unsettled.elements[key].insert(op.element);
    return true;
  });
  auto statuses = ask(sets_silent_, tried.size(), [&] { return kernel_.sets.apply(spec, tried); });
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (statuses[i]) {
      ++outcome_.written.elements;
      state_.commit(key, tried[i]);
      continue;
    }
    outcome_.unsettled.elements[key].insert(tried[i].element);
    if (tried[i].add) guard_failed(key, tried[i].element);
    fail(outcome_.failed.elements, words_of(spec, tried[i]), std::move(statuses[i].error()));
  }
}

// The virtual services that this element would have filtered or masqueraded stay hidden.
void Applier::guard_failed(const plan::SetKey& set, const ipset::Element& element) {
  const auto [service, address, port] = guarded_by(set.id, element);
  if (service) unguarded_services_.insert(*service);
  if (address) unguarded_addresses_.insert(*address);
  if (const auto protocol = protocol_of_ports(set.id); protocol && port)
    unguarded_node_ports_.emplace(*protocol, *port);
}

// Whether what this element filters or masquerades is still there although it was to go.
bool Applier::still_guards(const plan::SetKey& set, const ipset::Element& element) const {
  if (kept_services_.empty() && kept_addresses_.empty()) return false;
  const auto guarded = guarded_by(set.id, element);
  const auto is_guarded = [&](const netlink::VirtualServiceKey& key) {
    return guarded.service == key || guarded.address == key.address || guarded.port == key.port;
  };
  return std::any_of(kept_services_.begin(), kept_services_.end(), is_guarded) ||
         (guarded.address && kept_addresses_.contains(*guarded.address)) ||
         (guarded.service && kept_addresses_.contains(guarded.service->address));
}

bool Applier::may_expose(const netlink::VirtualServiceKey& key) const {
  return !families_without_rules_.contains(key.address.family()) &&
         !unguarded_addresses_.contains(key.address) && !unguarded_services_.contains(key) &&
         !unguarded_node_ports_.contains({key.protocol, key.port});
}

bool Applier::must_hold(const IpvsOp& op) const {
  if (const auto* service = std::get_if<AddService>(&op)) return !may_expose(service->service.key);
  if (const auto* server = std::get_if<AddServer>(&op))
    return failed_services_.contains(server->service);
  // Where it was not added, an edit would.
  if (const auto* edit = std::get_if<EditService>(&op))
    return failed_services_.contains(edit->service.key);
  return false;
}

void Applier::note(const IpvsOp& op, const netlink::Status& status) {
  if (const auto* add = std::get_if<AddService>(&op)) {
    const auto& key = add->service.key;
    if (!status)
      failed_services_.insert(key);
    else if (add->service.scheduler == netlink::kNoScheduler)
      unscheduled_services_.insert(key);
    else
      addresses_with_service_.insert(key.address);
  } else if (const auto* edit = std::get_if<EditService>(&op)) {
    const auto& key = edit->service.key;
    if (unscheduled_services_.erase(key) == 0) return;
    if (status) {
      addresses_with_service_.insert(key.address);
      return;
    }
    failed_services_.insert(key);
    if (status.error().kind == netlink::ErrorKind::missing) useless_services_.insert(key);
  } else if (const auto* removal = std::get_if<netlink::DeleteService>(&op)) {
    if (!status) kept_services_.insert(removal->key);
  }
}

void Applier::hold(const IpvsOp& op) {
  outcome_.held.push_back(to_string(op));
  outcome_.unsettled.services.insert(service_of(op));
}

void Applier::run(const std::vector<IpvsOp>& ops) {
  for_parts<IpvsOp>(ops, [this](const auto& part) { run_part(part); });
  drop_useless();
}

void Applier::run_part(std::span<const IpvsOp> ops) {
  std::vector<IpvsOp> some;
  const auto tried = without_held(ops, some, [this](const IpvsOp& op) {
    if (!must_hold(op)) return false;
    if (const auto* service = std::get_if<AddService>(&op))
      failed_services_.insert(service->service.key);
    hold(op);
    return true;
  });
  auto statuses = ask(ipvs_silent_, tried.size(), [&] { return kernel_.ipvs.apply(tried); });
  for (std::size_t i = 0; i < tried.size(); ++i) {
    note(tried[i], statuses[i]);
    if (statuses[i]) {
      ++outcome_.written.ipvs;
      state_.commit(tried[i]);
      continue;
    }
    outcome_.unsettled.services.insert(service_of(tried[i]));
    if (std::holds_alternative<AddService>(tried[i]) && is_lost(statuses[i].error()))
      outcome_.perhaps.services.insert(service_of(tried[i]));
    if (const auto* key = wants_scheduler(tried[i]);
        key && statuses[i].error().kind == netlink::ErrorKind::missing)
      outcome_.without_scheduler.push_back(*key);
    else if (must_hold(tried[i]))  // its virtual service failed in the same batch
      hold(tried[i]);
    else
      fail(outcome_.failed.ipvs, to_string(tried[i]), std::move(statuses[i].error()));
  }
}

// Virtual services for which there is no scheduler go again, as if they could not be added.
void Applier::drop_useless() {
  if (useless_services_.empty()) return;
  std::vector<IpvsOp> ops;
  for (const auto& key : std::exchange(useless_services_, {}))
    ops.emplace_back(netlink::DeleteService{key});
  const auto statuses = ask(ipvs_silent_, ops.size(), [&] { return kernel_.ipvs.apply(ops); });
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (statuses[i]) state_.commit(ops[i]);
}

bool Applier::must_hold(const plan::BindingOp& op) const {
  const auto& address = op.binding.address;
  if (!op.add) return unbound_addresses_.contains(address);
  if (families_without_rules_.contains(address.family()) || unguarded_addresses_.contains(address))
    return true;
  const auto failed = failed_services_.lower_bound({address});
  const bool some_failed = failed != failed_services_.end() && failed->address == address;
  return some_failed && !addresses_with_service_.contains(address);
}

void Applier::hold(const plan::BindingOp& op) {
  outcome_.held.push_back(to_string(op));
  outcome_.unsettled.addresses.insert(op.binding.address);
  if (op.add) unbound_addresses_.insert(op.binding.address);
}

void Applier::run(const std::vector<plan::BindingOp>& ops) {
  std::map<plan::Place, std::vector<plan::BindingOp>> tried;
  for (const auto& op : ops) {
    if (must_hold(op))
      hold(op);
    else
      tried[op.binding.place].push_back(op);
  }
  for (const auto& [place, some] : tried) write(place, some);
}

std::vector<netlink::Status> Applier::request(plan::Place place,
                                              std::span<const plan::BindingOp> ops) {
  std::vector<netlink::AddressOp> requests;
  requests.reserve(ops.size());
  for (const auto& op : ops) requests.push_back({op.add, op.binding.address});
  return place == plan::kLocalTable ? kernel_.links.apply_local_routes(requests)
                                    : kernel_.links.apply(plan::dummy_link(place), requests);
}

void Applier::write(plan::Place place, const std::vector<plan::BindingOp>& ops) {
  const auto adds = [](const plan::BindingOp& op) { return op.add; };
  const bool some_add = std::any_of(ops.begin(), ops.end(), adds);
  if (some_add && !make_link(place)) {
    for (const auto& op : ops) hold(op);
    return;
  }
  for_parts<plan::BindingOp>(ops, [&](const auto& part) { write_part(place, part); });
  if (!some_add) drop_link(place);
}

void Applier::write_part(plan::Place place, std::span<const plan::BindingOp> ops) {
  auto statuses = ask(links_silent_, ops.size(), [&] { return request(place, ops); });
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto& binding = ops[i].binding;
    if (statuses[i]) {
      ++outcome_.written.addresses;
      state_.commit(ops[i]);
      continue;
    }
    outcome_.unsettled.addresses.insert(binding.address);
    (ops[i].add ? unbound_addresses_ : kept_addresses_).insert(binding.address);
    if (ops[i].add && is_lost(statuses[i].error())) outcome_.perhaps.bindings.insert(binding);
    fail(outcome_.failed.addresses, to_string(ops[i]), std::move(statuses[i].error()));
  }
}

template <typename Request>
netlink::Result<bool> Applier::ask_links(Request request) {
  if (links_silent_) return netlink::not_sent();
  auto answer = request();
  links_silent_ = !answer && answer.error().kind == netlink::ErrorKind::timeout;
  return answer;
}

// A further link that holds nothing. The first is always there, as is the routing table.
bool Applier::is_unused(plan::Place place) const {
  return place != 0 && place != plan::kLocalTable && state_.addresses &&
         state_.addresses->count(place) == 0;
}

bool Applier::make_link(plan::Place place) {
  if (!is_unused(place)) return true;
  auto created = ask_links([&] { return kernel_.links.ensure_dummy(plan::dummy_link(place)); });
  if (created) {
    outcome_.written.links += *created ? 1 : 0;
    return true;
  }
  fail(outcome_.failed.links, "make link " + plan::dummy_link(place), std::move(created.error()));
  return false;
}

// One that stays does no harm.
void Applier::drop_link(plan::Place place) {
  if (!is_unused(place)) return;
  auto gone = ask_links([&] { return kernel_.links.remove_dummy(plan::dummy_link(place)); });
  if (gone)
    outcome_.written.links += *gone ? 1 : 0;
  else
    fail(outcome_.failed.links, "remove link " + plan::dummy_link(place), std::move(gone.error()));
}

}  // namespace ipvsproxier::sync

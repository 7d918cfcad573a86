#include "proxier/sync/applier.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "proxier/plan/bindings.h"
#include "proxier/plan/rule_changes.h"
#include "proxier/sync/operation_parts.h"

namespace ipvsproxier::sync {

namespace {

using netlink::AddService;
using netlink::EditService;
using netlink::IpvsOp;
using netlink::service_of;
using plan::SetChange;

// The virtual service whose scheduler the kernel must find for this operation. A `missing` answer
// can then only mean the scheduler.
const netlink::VirtualServiceKey* wants_scheduler(const IpvsOp& op) {
  if (const auto* add = std::get_if<AddService>(&op)) return &add->service.key;
  if (const auto* edit = std::get_if<EditService>(&op)) return &edit->service.key;
  return nullptr;
}

std::string words_of(const ipset::SetSpec& spec, const ipset::ElementOp& op) {
  return fmt::format("{} {} {}", op.add ? "add" : "remove", spec.name,
                     ipset::to_string(op.element));
}

std::string words_of(const ipset::TableRules& table) {
  return fmt::format("write rules of {} table {}", netlink::to_string(table.family),
                     ipset::to_string(table.table));
}

// Whether the operation adds or edits an entry.
bool adds(const IpvsOp& op) {
  return !std::holds_alternative<netlink::DeleteService>(op) &&
         !std::holds_alternative<netlink::DeleteServer>(op);
}

// Whether the outcome is unknown, because an answer was lost.
bool is_lost(const netlink::Error& error) {
  return error.kind == netlink::ErrorKind::overrun || error.kind == netlink::ErrorKind::timeout;
}

// Whether the answer shows that the kernel differs from the mirror.
bool is_suspect(const netlink::Error& error) {
  return is_lost(error) || error.kind == netlink::ErrorKind::already ||
         error.kind == netlink::ErrorKind::missing;
}

// The first operations, until the kernel has this much to do or a little more.
std::span<const ipset::ElementOp> first_part(std::span<const ipset::ElementOp> ops,
                                             std::size_t weight) {
  std::size_t count = 0;
  for (std::size_t sum = 0; count < ops.size() && sum < weight; ++count)
    sum += ipset::weight_of(ops[count].element);
  return ops.first(count);
}

std::size_t weight_of(std::span<const ipset::ElementOp> ops) {
  std::size_t weight = 0;
  for (const auto& op : ops) weight += ipset::weight_of(op.element);
  return weight;
}

// Joins two consecutive phases of few IPVS operations, so that one datagram carries both.
// Not if what leaves waits for what came before.
std::optional<std::vector<IpvsOp>> joined_ops(const plan::Transaction& transaction,
                                              std::size_t first) {
  constexpr std::size_t kMost = 32;
  const auto& phases = transaction.phases;
  if (first + 1 >= phases.size()) return std::nullopt;
  const auto* one = std::get_if<std::vector<IpvsOp>>(&phases[first].work);
  const auto* next = std::get_if<std::vector<IpvsOp>>(&phases[first + 1].work);
  if (one == nullptr || next == nullptr || one->size() + next->size() > kMost) return std::nullopt;
  if (!transaction.sent_on.empty() || !transaction.old_ways.empty()) return std::nullopt;
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

Outcome Applier::apply(const plan::Transaction& transaction, const std::stop_token& stop) {
  const auto& phases = transaction.phases;
  guards_ = Guards(transaction);
  for (std::size_t i = 0; i < phases.size() && !stop.stop_requested() && !pauses(); ++i) {
    if (auto joined = joined_ops(transaction, i)) {
      run(*joined);
      ++i;
    } else {
      std::visit([this](const auto& work) { run(work); }, phases[i].work);
    }
  }
  return std::move(outcome_);
}

bool Applier::pauses() {
  if (pause_ && outcome_.tried > 0 && !outcome_.paused) outcome_.paused = pause_(outcome_.tried);
  return outcome_.paused;
}

void Applier::end_part(std::size_t tried) {
  outcome_.tried += tried;
  progress_();
}

// `count` is a member of outcome_.failed.
void Applier::fail(std::size_t& count, Failure failure) {
  ++count;
  outcome_.suspect = outcome_.suspect || is_suspect(failure.error);
  outcome_.failures.push_back(std::move(failure));
}

void Applier::fail(std::size_t& count, const Thing& thing, Cause cause, std::string what,
                   netlink::Error error) {
  if (cause == Cause::object) {
    ++count;
    outcome_.refused.push_back({thing, std::move(error)});
    return;
  }
  insert(outcome_.unsettled, thing);
  fail(count, {std::move(what), std::move(error), family_of(thing)});
}

void Applier::hold(const Thing& thing, Cause cause, std::string what) {
  if (cause == Cause::object) {
    const auto* key = std::get_if<netlink::VirtualServiceKey>(&thing);
    const bool full = key != nullptr && guards_.has_no_room(*key);
    const auto* why = full ? ": not tried, as too many real servers of its namespace that were "
                             "removed from their Services are still in the kernel"
                           : ": not tried, for what it needs is refused";
    outcome_.refused.push_back({thing, {netlink::ErrorKind::malformed, 0, what + why}});
    return;
  }
  insert(outcome_.unsettled, thing);
  outcome_.held.push_back(std::move(what));
}

void Applier::run(const std::vector<ipset::SetSpec>& specs) {
  for (const auto& spec : specs) {
    auto status = ask(sets_silent_, 1, [&] { return std::vector{kernel_.sets.ensure(spec)}; })[0];
    if (status) {
      ++outcome_.written.sets;
      mirror_.commit(spec);
    } else {
      // A set that could not be replaced still works as before.
      if (is_missing(spec.name)) guards_.note_missing_set(spec.name);
      fail(outcome_.failed.sets, {"make set " + spec.name, std::move(status.error()), spec.family});
    }
    end_part(1);
  }
}

bool Applier::is_missing(const std::string& set) const {
  const auto& sets = mirror_.state().sets;
  return std::any_of(sets.begin(), sets.end(), [&](const auto& entry) {
    return !entry.second && ipset::set_name(entry.first.id, entry.first.family) == set;
  });
}

void Applier::run(const std::vector<ipset::TableRules>& tables) {
  for (const auto& table : tables) {
    if (guards_.must_keep_rules(table.family)) {
      outcome_.held.push_back(words_of(table));
      outcome_.unsettled.rules.insert(table.family);
      guards_.note_failed_rules(table.family);
      continue;
    }
    auto changed = write_rules(table);
    if (changed) {
      outcome_.written.rule_tables += *changed ? 1 : 0;
    } else {
      outcome_.unsettled.rules.insert(table.family);
      guards_.note_failed_rules(table.family);
      outcome_.rules_failed.insert(table.family);
      fail(outcome_.failed.rule_tables,
           {words_of(table), std::move(changed.error()), table.family});
    }
    end_part(1);
  }
}

// Only few virtual services need the match extension "ipvs". A kernel without it gets the other
// rules, and those few services stay hidden.
netlink::Result<bool> Applier::write_rules(const ipset::TableRules& table) {
  auto changed = kernel_.rules.apply(table);
  if (changed) mirror_.commit(table);
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
  mirror_.commit(reduced);
  outcome_.unsettled.rules.insert(table.family);
  outcome_.rules_failed.insert(table.family);
  for (const auto& key : unguarded) guards_.note_unguarded(key, Cause::node);
  fail(outcome_.failed.rule_tables,
       {"write the rules of KUBE-IPVS-OUT-FILTER", std::move(changed.error()), table.family});
  return without;
}

// Elements of several sets go together, a large number of them in parts.
void Applier::run(const std::vector<SetChange>& changes) {
  std::vector<ElementPart> parts;
  std::size_t weight = 0;
  for (const auto& change : changes) {
    const auto& key = change.set;
    const auto& ops = change.ops;
    const auto name = ipset::set_name(key.id, key.family);
    if (guards_.lacks_set(name)) {
      for (const auto& op : ops) {
        guards_.note_unguarded(key.id, op.element, Cause::node);
        outcome_.unsettled.elements[key].insert(op.element);
      }
      outcome_.held.push_back(fmt::format("{} elements of {}", ops.size(), name));
      continue;
    }
    for (std::span<const ipset::ElementOp> rest(ops); !rest.empty();) {
      const auto some = first_part(rest, kPart - weight);
      parts.push_back({key, ipset::set_spec(key.id, key.family), some, {}});
      rest = rest.subspan(some.size());
      weight += weight_of(some);
      if (weight < kPart) continue;
      run_parts(std::exchange(parts, {}));
      weight = 0;
      if (pauses()) return;
    }
  }
  if (!parts.empty()) run_parts(std::move(parts));
}

// Sends requests unless the table is silent: after a timeout each request would wait as long again.
template <typename Request>
std::vector<netlink::Status> Applier::ask(bool& silent, std::size_t count, Request request) {
  if (silent) return std::vector<netlink::Status>(count, netlink::not_sent());
  auto statuses = request();
  silent = netlink::timed_out(statuses);
  return statuses;
}

void Applier::run_parts(std::vector<ElementPart> parts) {
  std::vector<ipset::SetTable::SetOps> changes;
  std::size_t count = 0;
  std::size_t weight = 0;
  for (auto& part : parts) {
    part.ops = without_held(part.ops, part.tried, [&](const ipset::ElementOp& op) {
      const bool waits = op.add ? guards_.must_hold(part.key, op.element)
                                : guards_.must_keep(part.key, op.element);
      if (!waits) return false;
      guards_.note_held(part.key, op);
      hold(SetElement{part.key, op.element}, Cause::node, words_of(part.spec, op));
      return true;
    });
    changes.push_back({part.spec, part.ops, &plan::actual_elements(mirror_.state(), part.key)});
    count += part.ops.size();
    weight += weight_of(part.ops);
  }
  if (count == 0) return;
  std::vector<netlink::Status> statuses = ask(sets_silent_, count, [&] {
    std::vector<netlink::Status> all;
    for (auto& outcomes : kernel_.sets.apply_all(changes))
      std::move(outcomes.begin(), outcomes.end(), std::back_inserter(all));
    return all;
  });
  auto status = statuses.begin();
  for (const auto& part : parts)
    for (const auto& op : part.ops) note(part, op, std::move(*status++));
  end_part(weight);
}

void Applier::note(const ElementPart& part, const ipset::ElementOp& op, netlink::Status status) {
  const auto& key = part.key;
  if (status) {
    ++outcome_.written.elements;
    mirror_.commit(key, op);
    return;
  }
  const auto& [add, element] = op;
  const auto cause = cause_of(add, status.error());
  if (add)
    guards_.note_unguarded(key.id, element, cause);
  else
    guards_.note_stuck(key.id, element, cause);
  if (!add && is_lost(status.error())) mirror_.lose_removed({key, element});
  fail(outcome_.failed.elements, SetElement{key, element}, cause, words_of(part.spec, op),
       std::move(status.error()));
}

void Applier::run(const std::vector<IpvsOp>& ops) {
  for_parts<kPart, IpvsOp>(ops, [this](const auto& part) {
    if (pauses()) return false;
    run_part(part);
    return true;
  });
  drop_useless();
}

void Applier::run_part(std::span<const IpvsOp> ops) {
  std::vector<IpvsOp> some;
  const auto tried = without_held(ops, some, [this](const IpvsOp& op) {
    const auto cause = guards_.must_hold(op);
    if (!cause) return false;
    guards_.note_held(op, *cause);
    hold(service_of(op), *cause, to_string(op));
    return true;
  });
  auto statuses = ask(ipvs_silent_, tried.size(), [&] { return kernel_.ipvs.apply(tried); });
  for (std::size_t i = 0; i < tried.size(); ++i) {
    guards_.note(tried[i], statuses[i]);
    if (statuses[i]) {
      ++outcome_.written.ipvs;
      mirror_.commit(tried[i]);
      continue;
    }
    refuse(tried[i], std::move(statuses[i].error()));
  }
  end_part(tried.size());
}

void Applier::refuse(const IpvsOp& op, netlink::Error error) {
  const auto& key = service_of(op);
  const bool is_new = std::holds_alternative<AddService>(op);
  if (is_new && is_lost(error) && error != netlink::not_sent()) mirror_.lose_added(key);
  if (is_new && error.kind == netlink::ErrorKind::already) outcome_.existing.insert(key);
  forget_scheduler(op, error);
  const auto held = guards_.must_hold(op);  // its virtual service may have failed in the same batch
  if (const auto* wants = wants_scheduler(op); wants && error.kind == netlink::ErrorKind::missing) {
    insert(outcome_.unsettled, key);
    outcome_.without_scheduler.push_back(*wants);
  } else if (held && !std::holds_alternative<EditService>(op)) {
    hold(key, *held, to_string(op));
  } else {
    const auto cause = cause_of(adds(op), error);
    fail(outcome_.failed.ipvs, key, cause, to_string(op), std::move(error));
  }
}

// The kernel unbinds the old scheduler before it fails to bind the new one (ip_vs_edit_service,
// ip_vs_ctl.c; 6.1). One that is not found leaves the old one.
void Applier::forget_scheduler(const IpvsOp& op, const netlink::Error& error) {
  const auto* edit = std::get_if<EditService>(&op);
  const auto& known = mirror_.state().services;
  if (edit == nullptr || !known || error.kind == netlink::ErrorKind::missing ||
      error == netlink::not_sent())
    return;
  const auto actual = known->find(edit->service.key);
  if (actual == known->end() || actual->second.service.scheduler == edit->service.scheduler) return;
  auto service = actual->second.service;
  service.scheduler = netlink::kNoScheduler;
  mirror_.commit(IpvsOp(EditService{service}));
}

// Removes new virtual services without a usable scheduler, as if they could not be added.
void Applier::drop_useless() {
  std::vector<IpvsOp> ops;
  for (const auto& key : guards_.take_useless_services())
    ops.emplace_back(netlink::DeleteService{key});
  if (ops.empty()) return;
  const auto statuses = ask(ipvs_silent_, ops.size(), [&] { return kernel_.ipvs.apply(ops); });
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (statuses[i]) mirror_.commit(ops[i]);
}

void Applier::hold(const plan::BindingOp& op, Cause cause) {
  guards_.note_held(op, cause);
  hold(op.binding.address, cause, to_string(op));
}

void Applier::run(const std::vector<plan::BindingOp>& ops) {
  std::map<plan::Place, std::vector<plan::BindingOp>> tried;
  for (const auto& op : ops) {
    if (const auto cause = guards_.must_hold(op))
      hold(op, *cause);
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
    for (const auto& op : ops) hold(op, Cause::node);
    return;
  }
  for_parts<kPart, plan::BindingOp>(ops, [&](const auto& part) {
    if (pauses()) return false;
    write_part(place, part);
    return true;
  });
  if (!some_add) drop_link(place);
}

void Applier::write_part(plan::Place place, std::span<const plan::BindingOp> ops) {
  auto statuses = ask(links_silent_, ops.size(), [&] { return request(place, ops); });
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto& binding = ops[i].binding;
    guards_.note(ops[i], statuses[i]);
    if (statuses[i]) {
      ++outcome_.written.addresses;
      mirror_.commit(ops[i]);
      continue;
    }
    auto& error = statuses[i].error();
    const auto cause = cause_of(ops[i].add, error);
    if (ops[i].add && is_lost(error)) mirror_.lose_added(binding);
    fail(outcome_.failed.addresses, binding.address, cause, to_string(ops[i]), std::move(error));
  }
  end_part(ops.size());
}

template <typename Request>
netlink::Result<bool> Applier::ask_links(Request request) {
  if (links_silent_) return netlink::not_sent();
  auto answer = request();
  links_silent_ = !answer && answer.error().kind == netlink::ErrorKind::timeout;
  return answer;
}

// Whether a further link holds no address. The first link always stays, as does the routing table.
bool Applier::is_unused(plan::Place place) const {
  const auto& bindings = mirror_.state().addresses;
  return place != 0 && place != plan::kLocalTable && bindings && bindings->count(place) == 0;
}

bool Applier::make_link(plan::Place place) {
  if (!is_unused(place)) return true;
  auto created = ask_links([&] { return kernel_.links.ensure_dummy(plan::dummy_link(place)); });
  if (created) {
    outcome_.written.links += *created ? 1 : 0;
    return true;
  }
  fail(outcome_.failed.links, {"make link " + plan::dummy_link(place), std::move(created.error())});
  return false;
}

// A failure is harmless: an empty link may stay.
void Applier::drop_link(plan::Place place) {
  if (!is_unused(place)) return;
  auto gone = ask_links([&] { return kernel_.links.remove_dummy(plan::dummy_link(place)); });
  if (gone)
    outcome_.written.links += *gone ? 1 : 0;
  else
    fail(outcome_.failed.links,
         {"remove link " + plan::dummy_link(place), std::move(gone.error())});
}

}  // namespace ipvsproxier::sync

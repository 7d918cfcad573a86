#include "cmd/ipvsctl/diff/transaction_steps.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::ctl {

namespace {

using netlink::RealServer;
using netlink::RealServerKey;
using netlink::VirtualService;
using netlink::VirtualServiceKey;
using plan::TableKey;

// "scheduler rr -> mh, flags 0x1 -> 0x0"; unchanged values are left out.
class ValueChanges {
 public:
  template <typename T>
  ValueChanges& tell(std::string_view name, const T& from, const T& to) {
    if (from != to)
      text_ += fmt::format("{}{} {} -> {}", text_.empty() ? "" : ", ", name, from, to);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string changes_of(const VirtualService& from, const VirtualService& to) {
  return ValueChanges()
      .tell("scheduler", from.scheduler.view(), to.scheduler.view())
      .tell("flags", from.flags, to.flags)
      .tell("persistence timeout", from.timeout, to.timeout)
      .tell("netmask", from.netmask_bits, to.netmask_bits)
      .tell("persistence engine", from.persistence_engine.view(), to.persistence_engine.view())
      .text();
}

std::string changes_of(const RealServer& from, const RealServer& to) {
  return ValueChanges()
      .tell("weight", from.weight, to.weight)
      .tell("forwarding", static_cast<int>(from.method), static_cast<int>(to.method))
      .tell("upper threshold", from.upper_threshold, to.upper_threshold)
      .tell("lower threshold", from.lower_threshold, to.lower_threshold)
      .text();
}

std::string text_of(const VirtualServiceKey& service, const RealServerKey& server) {
  return to_string(service) + " -> " + to_string(server);
}

// What is not as of most: " weight 4, at most 1000 connections".
std::string settings_of(const RealServer& server) {
  std::string text;
  if (server.weight != 1) text += fmt::format(" weight {}", server.weight);
  if (server.upper_threshold != 0)
    text +=
        fmt::format("{} at most {} connections", text.empty() ? "" : ",", server.upper_threshold);
  return text;
}

std::string text_of(const VirtualService& service) {
  auto text = fmt::format("{} {}", to_string(service.key), service.scheduler.view());
  if ((service.flags & netlink::kPersistent) != 0)
    text += fmt::format(" persistent {}", service.timeout);
  if ((service.flags & netlink::kOnePacket) != 0) text += " one-packet";
  return text;
}

class Steps {
 public:
  Steps(const plan::Transaction& transaction, const plan::ActualState& actual,
        std::set<std::string>& links)
      : actual_(actual), links_(links) {
    for (const auto& phase : transaction.phases) std::visit(Foresee{*this}, phase.work);
  }

  std::vector<Step> take(const plan::Transaction& transaction) {
    for (const auto& phase : transaction.phases) std::visit(*this, phase.work);
    return std::move(steps_);
  }

  void operator()(const std::vector<ipset::SetSpec>& specs) {
    for (const auto& spec : specs)
      tell(Area::sets, has_set(spec.name) ? Change::change : Change::add,
           fmt::format("set {} {} maxelem {}", spec.name, ipset::to_string(spec.kind),
                       spec.max_elements));
  }

  void operator()(const std::vector<plan::SetChange>& changes) {
    for (const auto& change : changes)
      for (const auto& op : change.ops)
        tell(Area::sets, op.add ? Change::add : Change::remove,
             fmt::format("{} {}", ipset::set_name(change.set.id, change.set.family),
                         ipset::to_string(op.element)));
  }

  void operator()(const std::vector<ipset::TableRules>& tables) {
    for (const auto& table : tables) {
      const auto last = last_rules_.find({table.family, table.table});
      if (last == last_rules_.end() || last->second != &table) continue;
      compare_rules(table);
    }
  }

  void operator()(const std::vector<netlink::IpvsOp>& ops) {
    for (const auto& op : ops) std::visit(*this, op);
  }

  void operator()(const netlink::AddService& op) {
    const auto bound = late_.find(op.service.key);
    tell(op.service.key, Change::add, text_of(bound == late_.end() ? op.service : *bound->second));
  }
  void operator()(const netlink::EditService& op) {
    const auto& key = op.service.key;
    if (late_.contains(key)) return;
    const auto* known = find(key);
    tell(key, Change::change,
         to_string(key) + ": " +
             (known != nullptr ? changes_of(known->service, op.service) : text_of(op.service)));
  }
  void operator()(const netlink::DeleteService& op) {
    tell(op.key, Change::remove, to_string(op.key));
  }
  void operator()(const netlink::AddServer& op) {
    tell(op.service, Change::add, text_of(op.service, op.server.key) + settings_of(op.server));
  }
  void operator()(const netlink::EditServer& op) {
    const auto* known = find(op.service, op.server.key);
    tell(op.service, Change::change,
         text_of(op.service, op.server.key) + ": " +
             (known != nullptr ? changes_of(*known, op.server) : std::string("new")));
  }
  void operator()(const netlink::DeleteServer& op) {
    tell(op.service, Change::remove, text_of(op.service, op.server));
  }

  void operator()(const std::vector<plan::BindingOp>& ops) {
    std::set<plan::Place> left;
    for (const auto& op : ops) {
      const auto& [address, place] = op.binding;
      const auto change = op.add ? Change::add : Change::remove;
      if (place == plan::kLocalTable) {
        tell(Area::links, change, "local route to " + address.to_string());
        continue;
      }
      const auto link = plan::dummy_link(place);
      if (op.add && links_.insert(link).second)
        tell(Area::links, Change::add, "dummy link " + link);
      tell(Area::links, change, fmt::format("address {} on {}", address.to_string(), link));
      note_count(op, left);
    }
    for (const auto place : left)
      if (links_.erase(plan::dummy_link(place)) > 0)
        tell(Area::links, Change::remove, "dummy link " + plan::dummy_link(place));
  }

 private:
  // Collects what a later operation of the transaction writes again.
  struct Foresee {
    Steps& steps;

    void operator()(const std::vector<ipset::TableRules>& tables) const {
      for (const auto& table : tables) steps.last_rules_[{table.family, table.table}] = &table;
    }
    void operator()(const std::vector<netlink::IpvsOp>& ops) const {
      for (const auto& op : ops) {
        const auto* edit = std::get_if<netlink::EditService>(&op);
        if (edit != nullptr && steps.find(edit->service.key) == nullptr)
          steps.late_[edit->service.key] = &edit->service;
      }
    }
    void operator()(const auto& /*written once*/) const {}
  };

  void tell(Area area, Change change, std::string what) {
    steps_.push_back({.area = area, .change = change, .what = std::move(what), .service = {}});
  }
  void tell(const VirtualServiceKey& service, Change change, std::string what) {
    steps_.push_back({Area::virtual_servers, change, std::move(what), service});
  }

  const plan::ActualService* find(const VirtualServiceKey& key) const {
    if (!actual_.services) return nullptr;
    const auto it = actual_.services->find(key);
    return it == actual_.services->end() ? nullptr : &it->second;
  }
  const RealServer* find(const VirtualServiceKey& key, const RealServerKey& server) const {
    const auto* service = find(key);
    if (service == nullptr || !service->servers) return nullptr;
    const auto it = service->servers->find(server);
    return it == service->servers->end() ? nullptr : &*it;
  }
  bool has_set(const std::string& name) const {
    return std::any_of(actual_.sets.begin(), actual_.sets.end(), [&](const auto& set) {
      return set.second && ipset::set_name(set.first.id, set.first.family) == name;
    });
  }

  // `left`: further links that hold no address any more, which the daemon removes.
  void note_count(const plan::BindingOp& op, std::set<plan::Place>& left) {
    const auto place = op.binding.place;
    const auto before = actual_.addresses ? actual_.addresses->count(place) : 0;
    auto& count = counts_.try_emplace(place, before).first->second;
    if (op.add)
      ++count;
    else if (count > 0 && --count == 0 && place != 0)
      left.insert(place);
  }

  void tell_rule(const ipset::TableRules& table, Change change, std::string_view chain,
                 const ipset::Rule& rule) {
    tell(Area::rules, change,
         fmt::format("{} {}: -A {} {}", netlink::to_string(table.family),
                     ipset::to_string(table.table), chain, ipset::to_string(rule, table.family)));
  }

  // The rules of a chain that the other list lacks.
  void tell_rules(const ipset::TableRules& table, Change change, const ipset::Chain& chain,
                  const std::vector<ipset::Rule>& others) {
    const std::set<ipset::Rule> known(others.begin(), others.end());
    for (const auto& rule : chain.rules)
      if (!known.contains(rule)) tell_rule(table, change, chain.name, rule);
  }

  void compare_chain(const ipset::TableRules& table, const ipset::Chain& chain,
                     const ipset::Chain* found) {
    if (found != nullptr && ipset::same_rules(*found, chain)) return;
    const auto told = steps_.size();
    const ipset::Chain none{.name = chain.name, .rules = {}};
    const auto& has = found != nullptr ? *found : none;
    tell_rules(table, Change::remove, has, chain.rules);
    tell_rules(table, Change::add, chain, has.rules);
    if (steps_.size() > told) return;
    tell(Area::rules, found != nullptr ? Change::change : Change::add,
         fmt::format("{} {}: chain {}{}", netlink::to_string(table.family),
                     ipset::to_string(table.table), chain.name,
                     found != nullptr ? ": order of its rules" : ""));
  }

  void compare_rules(const ipset::TableRules& desired) {
    const auto it = actual_.rules.find({desired.family, desired.table});
    const ipset::TableRules none{.family = desired.family, .table = desired.table};
    const auto& actual = it == actual_.rules.end() ? none : it->second;
    for (const auto& chain : desired.chains) {
      const auto found = std::find_if(actual.chains.begin(), actual.chains.end(),
                                      [&](const auto& other) { return other.name == chain.name; });
      compare_chain(desired, chain, found == actual.chains.end() ? nullptr : &*found);
    }
    for (const auto& jump : desired.jumps)
      if (std::find(actual.jumps.begin(), actual.jumps.end(), jump) == actual.jumps.end())
        tell_rule(desired, Change::add, jump.from, jump.rule);
  }

  const plan::ActualState& actual_;
  std::set<std::string>& links_;
  std::map<TableKey, const ipset::TableRules*> last_rules_;
  // New virtual services that get their scheduler after their real servers.
  std::map<VirtualServiceKey, const VirtualService*> late_;
  std::map<plan::Place, std::size_t> counts_;  // addresses on the links that were changed so far
  std::vector<Step> steps_;
};

}  // namespace

std::string_view to_string(Area area) {
  switch (area) {
    case Area::host:
      return "host";
    case Area::links:
      return "links and addresses";
    case Area::sets:
      return "IP sets";
    case Area::rules:
      return "packet filter";
    case Area::virtual_servers:
      return "virtual servers";
  }
  return "";
}

std::vector<Step> steps_of(const plan::Transaction& transaction, const plan::ActualState& actual,
                           std::set<std::string>& links) {
  return Steps(transaction, actual, links).take(transaction);
}

}  // namespace ipvsproxier::ctl

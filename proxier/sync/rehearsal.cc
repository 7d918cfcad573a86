#include "proxier/sync/rehearsal.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::sync {

namespace {

using netlink::Result;
using netlink::Status;

// "scheduler rr -> mh, flags 0x1 -> 0x0"; unchanged values are left out.
class Changes {
 public:
  template <typename T>
  Changes& tell(std::string_view name, const T& from, const T& to) {
    if (from != to)
      text_ += fmt::format("{}{} {} -> {}", text_.empty() ? "" : ", ", name, from, to);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string changes_of(const netlink::VirtualService& from, const netlink::VirtualService& to) {
  return Changes()
      .tell("scheduler", from.scheduler.view(), to.scheduler.view())
      .tell("flags", from.flags, to.flags)
      .tell("persistence timeout", from.timeout, to.timeout)
      .tell("netmask", from.netmask_bits, to.netmask_bits)
      .tell("persistence engine", from.persistence_engine.view(), to.persistence_engine.view())
      .text();
}

std::string changes_of(const netlink::RealServer& from, const netlink::RealServer& to) {
  return Changes()
      .tell("weight", from.weight, to.weight)
      .tell("forwarding", static_cast<int>(from.method), static_cast<int>(to.method))
      .tell("upper threshold", from.upper_threshold, to.upper_threshold)
      .tell("lower threshold", from.lower_threshold, to.lower_threshold)
      .text();
}

std::string text_of(const netlink::VirtualServiceKey& service,
                    const netlink::RealServerKey& server) {
  return to_string(service) + " -> " + to_string(server);
}

std::string text_of(const netlink::VirtualService& service) {
  auto text = fmt::format("{} {}", to_string(service.key), service.scheduler.view());
  if ((service.flags & netlink::kPersistent) != 0)
    text += fmt::format(" persistent {}", service.timeout);
  return text;
}

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

Rehearsal::Rehearsal(const RealTables& real)
    : ipvs_(real.ipvs, steps_),
      links_(real.links, steps_),
      sets_(real.sets, steps_),
      rules_(real.rules, steps_) {}

// --- virtual services --------------------------------------------------------------------------

const netlink::VirtualService* Rehearsal::Ipvs::service(
    const netlink::VirtualServiceKey& key) const {
  const auto it = services_.find(key);
  return it == services_.end() ? nullptr : &it->second;
}

const netlink::RealServer* Rehearsal::Ipvs::server(const netlink::VirtualServiceKey& key,
                                                   const netlink::RealServerKey& server) const {
  const auto of_service = servers_.find(key);
  if (of_service == servers_.end()) return nullptr;
  const auto it = of_service->second.find(server);
  return it == of_service->second.end() ? nullptr : &it->second;
}

Step Rehearsal::Ipvs::step_of(const netlink::IpvsOp& op) const {
  using enum Change;
  Step step{.area = Area::virtual_servers, .service = netlink::service_of(op)};
  const auto tell = [&](Change change, std::string what) {
    step.change = change;
    step.what = std::move(what);
  };
  if (const auto* added = std::get_if<netlink::AddService>(&op)) {
    tell(add, text_of(added->service));
  } else if (const auto* edited = std::get_if<netlink::EditService>(&op)) {
    const auto* known = service(edited->service.key);
    tell(change,
         to_string(edited->service.key) + ": " +
             (known != nullptr ? changes_of(*known, edited->service) : text_of(edited->service)));
  } else if (const auto* deleted = std::get_if<netlink::DeleteService>(&op)) {
    tell(remove, to_string(deleted->key));
  } else if (const auto* server_added = std::get_if<netlink::AddServer>(&op)) {
    tell(add, text_of(server_added->service, server_added->server.key));
  } else if (const auto* server_edited = std::get_if<netlink::EditServer>(&op)) {
    const auto* known = server(server_edited->service, server_edited->server.key);
    tell(change,
         text_of(server_edited->service, server_edited->server.key) + ": " +
             (known != nullptr ? changes_of(*known, server_edited->server) : std::string("new")));
  } else if (const auto* server_deleted = std::get_if<netlink::DeleteServer>(&op)) {
    tell(remove, text_of(server_deleted->service, server_deleted->server));
  }
  return step;
}

std::vector<Status> Rehearsal::Ipvs::apply(std::span<const netlink::IpvsOp> ops) {
  for (const auto& op : ops) steps_.push_back(step_of(op));
  return std::vector<Status>(ops.size());
}

Result<std::vector<netlink::VirtualService>> Rehearsal::Ipvs::list_services() {
  if (real_ == nullptr) return std::vector<netlink::VirtualService>{};
  auto services = real_->list_services();
  if (!services) return services;
  services_.clear();
  for (const auto& service : *services) services_.emplace(service.key, service);
  return services;
}

// One part holds the whole listing.
Result<netlink::IpvsTable::ServicesPart> Rehearsal::Ipvs::begin_services() {
  auto all = list_services();
  if (!all) return all.error();
  return ServicesPart{.services = *std::move(all), .last = true};
}

Result<std::vector<netlink::ListedServer>> Rehearsal::Ipvs::list_servers(
    const netlink::VirtualServiceKey& service) {
  if (real_ == nullptr) return std::vector<netlink::ListedServer>{};
  auto listed = real_->list_servers(service);
  if (!listed) return listed;
  auto& servers = servers_[service];
  servers.clear();
  for (const auto& entry : *listed) servers.emplace(entry.server.key, entry.server);
  return listed;
}

Result<netlink::IpvsTimeouts> Rehearsal::Ipvs::timeouts() {
  if (real_ == nullptr) return netlink::IpvsTimeouts{};
  return real_->timeouts();
}

Status Rehearsal::Ipvs::set_timeouts(const netlink::IpvsTimeouts& timeouts) {
  steps_.push_back({.area = Area::host,
                    .what = fmt::format("set IPVS timeouts tcp {} s, tcpfin {} s, udp {} s",
                                        timeouts.tcp, timeouts.tcp_fin, timeouts.udp)});
  return {};
}

// --- links -------------------------------------------------------------------------------------

Result<bool> Rehearsal::Links::ensure_dummy(std::string_view name) {
  const auto links = list_links();
  if (!links) return links.error();
  if (std::find(links->begin(), links->end(), name) != links->end()) return false;
  steps_.push_back(
      {.area = Area::links, .change = Change::add, .what = fmt::format("dummy link {}", name)});
  return true;
}

Result<bool> Rehearsal::Links::remove_dummy(std::string_view name) {
  steps_.push_back(
      {.area = Area::links, .change = Change::remove, .what = fmt::format("dummy link {}", name)});
  return true;
}

Result<std::vector<std::string>> Rehearsal::Links::list_links() {
  if (real_ == nullptr) return std::vector<std::string>{};
  return real_->list_links();
}

Result<std::vector<netlink::InterfaceAddress>> Rehearsal::Links::list_addresses() {
  if (real_ == nullptr) return std::vector<netlink::InterfaceAddress>{};
  return real_->list_addresses();
}

std::vector<Status> Rehearsal::Links::apply(std::string_view link,
                                            std::span<const netlink::AddressOp> ops) {
  for (const auto& op : ops)
    steps_.push_back({.area = Area::links,
                      .change = op.add ? Change::add : Change::remove,
                      .what = fmt::format("address {} on {}", op.address.to_string(), link)});
  return std::vector<Status>(ops.size());
}

Result<std::vector<netlink::IpAddress>> Rehearsal::Links::list_local_routes() {
  if (real_ == nullptr) return std::vector<netlink::IpAddress>{};
  return real_->list_local_routes();
}

std::vector<Status> Rehearsal::Links::apply_local_routes(std::span<const netlink::AddressOp> ops) {
  for (const auto& op : ops)
    steps_.push_back({.area = Area::links,
                      .change = op.add ? Change::add : Change::remove,
                      .what = fmt::format("local route to {}", op.address.to_string())});
  return std::vector<Status>(ops.size());
}

// --- sets --------------------------------------------------------------------------------------

Status Rehearsal::Sets::ensure(const ipset::SetSpec& spec) {
  const auto listed = list(spec.name);
  if (!listed) return listed.error();
  const auto& found = *listed;
  if (found && found->spec.kind == spec.kind && found->spec.family == spec.family &&
      found->spec.max_elements == spec.max_elements && found->options.empty())
    return {};
  steps_.push_back({.area = Area::sets,
                    .change = found ? Change::change : Change::add,
                    .what = fmt::format("set {} {} maxelem {}", spec.name,
                                        ipset::to_string(spec.kind), spec.max_elements)});
  return {};
}

Result<std::optional<ipset::ListedSet>> Rehearsal::Sets::list(const std::string& name) {
  if (real_ == nullptr) return std::optional<ipset::ListedSet>{};
  return real_->list(name);
}

std::vector<Status> Rehearsal::Sets::apply(const ipset::SetSpec& spec,
                                           std::span<const ipset::ElementOp> ops) {
  for (const auto& op : ops)
    steps_.push_back({.area = Area::sets,
                      .change = op.add ? Change::add : Change::remove,
                      .what = spec.name + " " + ipset::to_string(op.element)});
  return std::vector<Status>(ops.size());
}

Status Rehearsal::Sets::destroy(const std::string& name) {
  steps_.push_back({.area = Area::sets, .change = Change::remove, .what = "set " + name});
  return {};
}

// --- rules -------------------------------------------------------------------------------------

void Rehearsal::Rules::note(const ipset::TableRules& table, Change change, std::string_view chain,
                            const ipset::Rule& rule) {
  steps_.push_back({.area = Area::rules,
                    .change = change,
                    .what = fmt::format("{} {}: -A {} {}", netlink::to_string(table.family),
                                        ipset::to_string(table.table), chain,
                                        ipset::to_string(rule, table.family))});
}

Result<ipset::TableRules> Rehearsal::Rules::list(const ipset::TableRules& wanted) {
  if (real_ == nullptr) return ipset::TableRules{.family = wanted.family, .table = wanted.table};
  auto listed = real_->list(wanted);
  if (listed && wanted.table == ipset::Table::nat)
    std::erase_if(listed->chains, [&](const ipset::Chain& chain) {
      return aside_.contains({wanted.family, chain.name});
    });
  return listed;
}

Result<bool> Rehearsal::Rules::apply(const ipset::TableRules& desired) {
  const auto actual = list(desired);
  if (!actual) return actual.error();
  const auto before = steps_.size();
  for (const auto& chain : desired.chains) {
    const auto found = std::find_if(actual->chains.begin(), actual->chains.end(),
                                    [&](const auto& other) { return other.name == chain.name; });
    const bool missing = found == actual->chains.end();
    if (!missing && ipset::same_rules(*found, chain)) continue;
    const auto told = steps_.size();
    const std::vector<ipset::Rule> none;
    const auto& has = missing ? none : found->rules;
    const auto note_others = [&](const auto& rules, const auto& than, Change change) {
      const std::set<ipset::Rule> known(than.begin(), than.end());
      for (const auto& rule : rules)
        if (!known.contains(rule)) note(desired, change, chain.name, rule);
    };
    note_others(has, chain.rules, Change::remove);
    note_others(chain.rules, has, Change::add);
    if (steps_.size() == told)
      steps_.push_back({.area = Area::rules,
                        .change = missing ? Change::add : Change::change,
                        .what = fmt::format("{} {}: chain {}{}", netlink::to_string(desired.family),
                                            ipset::to_string(desired.table), chain.name,
                                            missing ? "" : ": order of its rules")});
  }
  for (const auto& jump : desired.jumps)
    if (std::find(actual->jumps.begin(), actual->jumps.end(), jump) == actual->jumps.end())
      note(desired, Change::add, jump.from, jump.rule);
  return steps_.size() > before;
}

Result<ipset::RemovedRules> Rehearsal::Rules::remove(const ipset::RuleRemoval& removal) {
  if (real_ == nullptr) return ipset::RemovedRules{};
  auto removed = real_->remove(removal);
  if (removed && removed->chains + removed->jumps > 0)
    steps_.push_back(
        {.area = Area::rules,
         .change = Change::remove,
         .what = fmt::format("{} {}: {} chains and {} jumps of kube-proxy's iptables mode",
                             netlink::to_string(removal.family), ipset::to_string(removal.table),
                             removed->chains, removed->jumps)});
  return removed;
}

Result<bool> Rehearsal::Rules::set_aside(const ipset::ChainMove& move,
                                         const ipset::RuleRemoval& surplus) {
  if (real_ == nullptr) return false;
  auto moved = real_->set_aside(move, surplus);
  if (!moved || !*moved) return moved;
  aside_.insert({surplus.family, move.jump.to});
  steps_.push_back(
      {.area = Area::rules,
       .what = fmt::format("{} {}: chain {} of iptables mode serves as {} until all is "
                           "programmed",
                           netlink::to_string(surplus.family), ipset::to_string(surplus.table),
                           move.jump.to, move.aside)});
  return moved;
}

}  // namespace ipvsproxier::sync

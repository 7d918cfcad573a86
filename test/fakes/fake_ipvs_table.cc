#include "test/fakes/fake_ipvs_table.h"

#include <cerrno>
#include <limits>
#include <memory>

namespace ipvsproxier::test {

using namespace netlink;

namespace {

Error refuse(const IpvsOp& op, ErrorKind kind, int sys_errno, const std::string& why) {
  return Error{kind, sys_errno, to_string(op) + ": " + why};
}

// A mark service has no address, protocol or port of its own.
VirtualServiceKey canonical(const VirtualServiceKey& key) {
  if (key.fwmark == 0) return key;
  return {.address = IpAddress::any(key.address.family()), .fwmark = key.fwmark};
}

// net/netfilter/ipvs/ip_vs_ctl.c, ip_vs_new_dest: only unicast and local addresses.
bool can_be_server(const IpAddress& address) {
  const auto first = address.bytes()[0];
  if (address.is_any()) return false;
  if (address.family() == Family::ipv4) return first < 224;
  return first != 0xff && !address.is_link_local();
}

}  // namespace

FakeIpvsTable::Entry* FakeIpvsTable::find(const VirtualServiceKey& key) {
  const auto found = entries_.find(canonical(key));
  return found == entries_.end() ? nullptr : &found->second;
}

Status FakeIpvsTable::put(const IpvsOp& op, const VirtualService& service) {
  const std::string scheduler(service.scheduler.view());
  if (!schedulers.contains(scheduler) ||
      (!service.persistence_engine.empty() && service.persistence_engine != "sip"))
    return refuse(op, ErrorKind::missing, ENOENT,
                  "the kernel has no scheduler \"" + scheduler + "\"");
  const auto family = service.key.address.family();
  if (family == Family::ipv6 && (service.netmask_bits < 1 || service.netmask_bits > 128))
    return refuse(op, ErrorKind::malformed, EINVAL, "netmask");
  auto& entry = entries_[canonical(service.key)];
  entry.service = service;
  entry.service.key = canonical(service.key);
  return {};
}

Status FakeIpvsTable::put(const IpvsOp& op, const VirtualServiceKey& service,
                          const RealServer& server) {
  auto* entry = find(service);
  if (!entry) return refuse(op, ErrorKind::missing, ESRCH, "there is no such virtual service");
  const auto family = server.key.address.family();
  if (family != service.address.family() && server.method != ForwardMethod::tunnel)
    return refuse(op, ErrorKind::malformed, EINVAL, "family");
  if (server.weight > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max()) ||
      server.lower_threshold > server.upper_threshold)
    return refuse(op, ErrorKind::malformed, ERANGE, "weight or thresholds");
  if (server.tunnel_type == 1 && server.tunnel_port == 0)
    return refuse(op, ErrorKind::malformed, EINVAL, "tunnel port");
  const bool exists = entry->servers.contains(server.key);
  if (!exists && !can_be_server(server.key.address))
    return refuse(op, ErrorKind::malformed, EINVAL, "address");
  entry->servers[server.key].server = server;
  return {};
}

Status FakeIpvsTable::apply_one(const IpvsOp& op) {
  struct Visitor {
    FakeIpvsTable& table;
    const IpvsOp& op;
    Status operator()(const AddService& add) {
      if (!add.adopts && table.find(add.service.key) != nullptr)
        return refuse(op, ErrorKind::already, EEXIST, "it exists");
      return table.put(op, add.service);
    }
    Status operator()(const EditService& edit) { return table.put(op, edit.service); }
    Status operator()(const DeleteService& remove) {
      table.entries_.erase(canonical(remove.key));
      return {};
    }
    Status operator()(const AddServer& add) { return table.put(op, add.service, add.server); }
    Status operator()(const EditServer& edit) {
      const auto* entry = table.find(edit.service);
      if (entry && edit.server.weight == 0 && !entry->servers.contains(edit.server.key)) return {};
      return table.put(op, edit.service, edit.server);
    }
    Status operator()(const DeleteServer& remove) {
      if (auto* entry = table.find(remove.service)) entry->servers.erase(remove.server);
      return {};
    }
  };
  return std::visit(Visitor{*this, op}, op);
}

std::vector<Status> FakeIpvsTable::apply(std::span<const IpvsOp> ops) {
  std::vector<Status> outcomes;
  std::set<VirtualServiceKey> taken;
  for (const auto& op : ops) {
    const auto* add = std::get_if<AddService>(&op);
    if (add == nullptr && taken.contains(service_of(op))) {
      outcomes.push_back(refuse(op, ErrorKind::already, EEXIST, "that of another program"));
      continue;
    }
    ++writes_;
    // An addition that is done twice meets its own virtual service.
    const auto done = std::make_shared<bool>(false);
    outcomes.push_back(faults.around(to_string(op), [this, op, done] {
      if (std::get_if<AddService>(&op) != nullptr && *done) return Status{};
      auto status = apply_one(op);
      *done = status.has_value();
      return status;
    }));
    const auto& status = outcomes.back();
    if (add != nullptr && !status && status.error().kind == ErrorKind::already)
      taken.insert(add->service.key);
    if (after) after(op);
  }
  return outcomes;
}

void FakeIpvsTable::vanish() {
  for (const auto& [key, entry] : entries_) unseen_.insert(key);
  entries_.clear();
}

Result<std::vector<VirtualService>> FakeIpvsTable::list_services() {
  if (auto fault = faults.next("list virtual services")) return std::move(*fault);
  unseen_.clear();
  return services();
}

std::vector<VirtualService> FakeIpvsTable::services() const {
  std::vector<VirtualService> services;
  for (const auto& [key, entry] : entries_) services.push_back(entry.service);
  return services;
}

Result<FakeIpvsTable::ServicesPart> FakeIpvsTable::begin_services() {
  listed_ = 0;
  return next_services();
}

Result<FakeIpvsTable::ServicesPart> FakeIpvsTable::next_services() {
  constexpr std::size_t kPart = 20;
  if (auto fault = faults.next("list virtual services")) return std::move(*fault);
  ServicesPart part;
  std::size_t index = 0;
  for (const auto& [key, entry] : entries_) {
    if (index++ < listed_) continue;
    if (part.services.size() == kPart) return part;
    part.services.push_back(entry.service);
    ++listed_;
  }
  part.last = true;
  return part;
}

Result<std::vector<ListedServer>> FakeIpvsTable::list_servers(const VirtualServiceKey& service) {
  const auto what = "list real servers of virtual service " + to_string(service);
  ++server_listings_;
  if (auto fault = faults.next(what)) return std::move(*fault);
  unseen_.erase(service);
  if (!find(service)) return Error{ErrorKind::missing, ESRCH, what};
  return servers(service);
}

std::vector<ListedServer> FakeIpvsTable::servers(const VirtualServiceKey& service) const {
  std::vector<ListedServer> servers;
  if (const auto entry = entries_.find(canonical(service)); entry != entries_.end())
    for (const auto& [key, server] : entry->second.servers) servers.push_back(server);
  return servers;
}

Result<IpvsTraffic> FakeIpvsTable::traffic(const VirtualServiceKey& service) {
  const auto what = "read the counters of virtual service " + to_string(service);
  ++counter_readings_;
  if (auto fault = faults.next(what)) return std::move(*fault);
  const auto* entry = find(service);
  if (entry == nullptr) return Error{ErrorKind::missing, ESRCH, what};
  return entry->traffic;
}

void FakeIpvsTable::set_traffic(const VirtualServiceKey& service, const IpvsTraffic& traffic) {
  entries_.at(canonical(service)).traffic = traffic;
}

Result<bool> FakeIpvsTable::has_scheduler(netlink::ShortName scheduler) {
  const std::string name(scheduler.view());
  if (auto fault = faults.next("look for the IPVS scheduler " + name)) return std::move(*fault);
  return schedulers.contains(name);
}

Result<IpvsTimeouts> FakeIpvsTable::timeouts() {
  if (auto fault = faults.next("read IPVS timeouts")) return std::move(*fault);
  return timeouts_;
}

Status FakeIpvsTable::set_timeouts(const IpvsTimeouts& wanted) {
  if (auto fault = faults.next("set IPVS timeouts")) return std::move(*fault);
  auto next = timeouts_;
  if (wanted.tcp != 0) next.tcp = wanted.tcp;
  if (wanted.tcp_fin != 0) next.tcp_fin = wanted.tcp_fin;
  if (wanted.udp != 0) next.udp = wanted.udp;
  if (next == timeouts_) return {};
  ++writes_;
  timeouts_ = next;
  return {};
}

const RealServer* FakeIpvsTable::server(const VirtualServiceKey& service,
                                        const RealServerKey& key) const {
  const auto entry = entries_.find(canonical(service));
  if (entry == entries_.end()) return nullptr;
  const auto found = entry->second.servers.find(key);
  return found == entry->second.servers.end() ? nullptr : &found->second.server;
}

void FakeIpvsTable::set_connections(const VirtualServiceKey& service, const RealServerKey& server,
                                    std::uint32_t active, std::uint32_t inactive) {
  auto& listed = entries_.at(canonical(service)).servers.at(server);
  listed.active_connections = active;
  listed.inactive_connections = inactive;
}

}  // namespace ipvsproxier::test

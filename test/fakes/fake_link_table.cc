#include "test/fakes/fake_link_table.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace ipvsproxier::test {

using namespace netlink;

FakeLinkTable::FakeLinkTable() {
  add_link("lo", "");
  add_address({"lo", *IpAddress::parse("127.0.0.1"), 8});
  add_address({"lo", *IpAddress::parse("::1"), 128});
}

void FakeLinkTable::add_link(const std::string& name, const std::string& kind) {
  links_[name].kind = kind;
}

void FakeLinkTable::add_address(const InterfaceAddress& address) {
  links_[address.link].addresses.emplace(address.address, address.prefix_length);
}

Result<bool> FakeLinkTable::ensure_dummy(std::string_view name) {
  const auto what = "create dummy link " + std::string(name);
  return faults.around(what,
                       [this, name = std::string(name), what] { return make_dummy(name, what); });
}

Result<bool> FakeLinkTable::make_dummy(std::string_view name, const std::string& what) {
  if (name.empty() || name.size() > 15) return Error{ErrorKind::malformed, EINVAL, what};
  const auto found = links_.find(name);
  if (found == links_.end()) {
    ++writes_;
    add_link(std::string(name), "dummy");
    return true;
  }
  if (found->second.kind != "dummy")
    return Error{ErrorKind::already, 0, what + ": a link of this name exists and is not a dummy"};
  return false;
}

Result<bool> FakeLinkTable::remove_dummy(std::string_view name) {
  const auto what = "remove dummy link " + std::string(name);
  return faults.around(what,
                       [this, name = std::string(name), what] { return take_dummy(name, what); });
}

Result<bool> FakeLinkTable::take_dummy(std::string_view name, const std::string& what) {
  const auto found = links_.find(name);
  if (found == links_.end()) return false;
  if (found->second.kind != "dummy")
    return Error{ErrorKind::already, 0, what + ": a link of this name exists and is not a dummy"};
  ++writes_;
  links_.erase(found);
  return true;
}

Result<std::vector<std::string>> FakeLinkTable::list_links() {
  if (auto fault = faults.next("list links")) return std::move(*fault);
  std::vector<std::string> names;
  for (const auto& [name, link] : links_) names.push_back(name);
  return names;
}

bool FakeLinkTable::contains(std::string_view link, const IpAddress& address) const {
  const auto found = links_.find(link);
  return found != links_.end() &&
         found->second.addresses.contains({address, address_bits(address.family())});
}

bool FakeLinkTable::is_bound(const IpAddress& address) const {
  return routes_.contains(address) || std::ranges::any_of(links_, [&](const auto& one) {
           return one.second.kind == "dummy" && contains(one.first, address);
         });
}

void FakeLinkTable::remove_address(const InterfaceAddress& address) {
  links_.at(address.link).addresses.erase({address.address, address.prefix_length});
}

// The ends of a loop go together, with their routes.
void FakeLinkTable::remove_link(const std::string& name) {
  const auto found = links_.find(name);
  if (found == links_.end()) return;
  if (found->second.kind == "loop") {
    std::erase_if(links_, [](const auto& one) { return one.second.kind == "loop"; });
    loop_routes_.clear();
  } else {
    links_.erase(found);
  }
}

bool FakeLinkTable::is_loop(const LoopSpec& spec) const {
  return std::ranges::all_of(std::array{spec.first, spec.second}, [&](const std::string& name) {
    const auto found = links_.find(name);
    return found != links_.end() && found->second.kind == "loop";
  });
}

Result<LoopReport> FakeLinkTable::make_loop(const LoopSpec& spec, bool dry) {
  LoopReport report;
  const bool any = links_.contains(spec.first) || links_.contains(spec.second);
  if (any && !is_loop(spec))
    return Error{ErrorKind::already, 0, "a link " + spec.first + " exists and is not ours"};
  if (!any) {
    report.written.push_back("links " + spec.first + " and " + spec.second);
    if (dry) return report;
    ++writes_;
    add_link(spec.first, "loop");
    add_link(spec.second, "loop");
  }
  if (dry) return report;
  for (const auto& way : spec.ways) {
    std::vector<IpAddress> wanted{way.near, way.far};
    if (way.localhost.family() == Family::ipv6) wanted.push_back(way.localhost);
    for (const auto& address : wanted)
      if (loop_routes_.insert(address).second)
        report.written.push_back("route " + address.to_string());
  }
  return report;
}

Result<LoopReport> FakeLinkTable::ensure_loop(const LoopSpec& spec, bool dry) {
  return faults.around("make links " + spec.first + " and " + spec.second,
                       [this, spec, dry] { return make_loop(spec, dry); });
}

Result<bool> FakeLinkTable::remove_loop(const LoopSpec& spec) {
  return faults.around("remove link " + spec.first, [this, spec]() -> Result<bool> {
    const bool any = links_.contains(spec.first) || links_.contains(spec.second);
    if (any && !is_loop(spec))
      return Error{ErrorKind::already, 0, "a link " + spec.first + " exists and is not ours"};
    if (any) ++writes_;
    remove_link(spec.first);
    return any;
  });
}

Result<std::vector<InterfaceAddress>> FakeLinkTable::list_addresses() {
  ++listings_;
  if (auto fault = faults.next("list addresses")) return std::move(*fault);
  return addresses();
}

std::vector<InterfaceAddress> FakeLinkTable::addresses() const {
  std::vector<InterfaceAddress> result;
  for (const auto& [name, link] : links_)
    for (const auto& [address, length] : link.addresses)
      result.push_back(InterfaceAddress{name, address, length, link.kind == "dummy"});
  return result;
}

Status FakeLinkTable::apply_one(std::string_view link, const AddressOp& op) {
  const auto what = to_string(op) + " on link " + std::string(link);
  const auto found = links_.find(link);
  if (found == links_.end()) {
    if (!op.add) return {};
    return Error{ErrorKind::missing, ENODEV, what};
  }
  const auto length = address_bits(op.address.family());
  if (!op.add) {
    found->second.addresses.erase({op.address, length});
    return {};
  }
  // net/ipv6/addrconf.c, ipv6_add_addr.
  if (op.address.family() == Family::ipv6 &&
      (op.address.is_any() || op.address.bytes()[0] == 0xff ||
       (op.address.is_loopback() && link != "lo")))
    return Error{ErrorKind::malformed, EADDRNOTAVAIL, what};
  found->second.addresses.emplace(op.address, length);
  return {};
}

std::vector<Status> FakeLinkTable::apply(std::string_view link, std::span<const AddressOp> ops) {
  std::vector<Status> outcomes;
  for (const auto& op : ops) {
    ++writes_;
    outcomes.push_back(faults.around(
        to_string(op), [this, link = std::string(link), op] { return apply_one(link, op); }));
    if (after) after(op);
  }
  return outcomes;
}

Result<std::vector<IpAddress>> FakeLinkTable::list_local_routes() {
  if (auto fault = faults.next("list local routes")) return std::move(*fault);
  return std::vector(routes_.begin(), routes_.end());
}

std::vector<Status> FakeLinkTable::apply_local_routes(std::span<const AddressOp> ops) {
  std::vector<Status> outcomes;
  for (const auto& op : ops) {
    ++writes_;
    outcomes.push_back(faults.around(local_route_text(op), [this, op]() -> Status {
      if (op.add)
        routes_.insert(op.address);
      else
        routes_.erase(op.address);
      return {};
    }));
    if (after) after(op);
  }
  return outcomes;
}

}  // namespace ipvsproxier::test

#include "test/fakes/fake_set_table.h"

#include <cerrno>
#include <iterator>
#include <variant>

#include "ipset/sets/set_codec.h"

namespace ipvsproxier::test {
namespace {

using ipset::Element;
using ipset::ElementOp;
using ipset::ListedSet;
using ipset::Result;
using ipset::SetKind;
using ipset::SetSpec;
using ipset::Status;
using netlink::Error;
using netlink::ErrorKind;

Status check_name(const std::string& name) {
  if (!name.empty() && name.size() <= 31) return {};
  return Error{ErrorKind::malformed, EINVAL, "set name \"" + name + "\""};
}

// What the kernel knows of a set of ours.
ipset::SetHeader header_of(const SetSpec& spec) {
  ipset::SetHeader header{.name = spec.name, .type = std::string(to_string(spec.kind))};
  if (spec.kind == SetKind::bitmap_port) return header;
  header.family = spec.family;
  header.hash_size = spec.hash_size;
  header.max_elements = spec.max_elements;
  return header;
}

// As a listing has it: of port bitmaps the kernel tells no family and no sizes.
SetSpec listed_spec(const SetSpec& spec) {
  if (spec.kind == SetKind::bitmap_port) return {.name = spec.name, .kind = SetKind::bitmap_port};
  return spec;
}

// Why the kernel refuses the element; "" if it does not.
struct Refusal {
  const SetSpec& spec;

  std::string operator()(const ipset::IpElement& element) const {
    if (spec.kind != SetKind::hash_ip && spec.kind != SetKind::nft_addresses &&
        spec.kind != SetKind::nft_hairpins)
      return "kind";
    if (element.ip.family() != spec.family) return "family";
    return element.ip.is_any() ? "null-valued element" : "";
  }
  std::string operator()(const ipset::IpPortElement& element) const {
    if (spec.kind != SetKind::hash_ip_port) return "kind";
    return element.ip.family() != spec.family ? "family" : "";
  }
  std::string operator()(const ipset::IpPortIpElement& element) const {
    if (spec.kind != SetKind::hash_ip_port_ip) return "kind";
    const bool fits = element.ip.family() == spec.family && element.ip2.family() == spec.family;
    return fits ? "" : "family";
  }
  std::string operator()(const ipset::IpPortNetElement& element) const {
    if (spec.kind != SetKind::hash_ip_port_net) return "kind";
    if (element.ip.family() != spec.family || element.net.family() != spec.family) return "family";
    return element.net.length == 0 ? "prefix length 0" : "";
  }
  std::string operator()(const ipset::RangesElement& element) const {
    if (spec.kind != SetKind::nft_source_ranges) return "kind";
    const auto fits = [&](const auto& range) { return range.family() == spec.family; };
    return fits(element.ip) && std::ranges::all_of(element.ranges, fits) ? "" : "family";
  }
  std::string operator()(const ipset::ServiceElement& element) const {
    if (spec.kind != SetKind::nft_services) return "kind";
    return element.ip.family() != spec.family ? "family" : "";
  }
  std::string operator()(const ipset::DestinationElement& element) const {
    if (spec.kind != SetKind::nft_destinations) return "kind";
    const bool fits = element.ip.family() == spec.family && element.to.family() == spec.family;
    return fits ? "" : "family";
  }
  std::string operator()(const ipset::PortElement&) const {
    return spec.kind != SetKind::bitmap_port && spec.kind != SetKind::nft_ports ? "kind" : "";
  }
};

}  // namespace

Status FakeSetTable::ensure(const SetSpec& spec) {
  return faults.around("make set " + spec.name, [this, spec] { return make(spec); });
}

Status FakeSetTable::make(const SetSpec& spec) {
  if (Status status = check_name(spec.name); !status) return status;
  if (const auto foreign = foreign_.find(spec.name); foreign != foreign_.end())
    return Error{ErrorKind::already, 0,
                 "set " + spec.name + " exists with type " + foreign->second + ", wanted " +
                     std::string(to_string(spec.kind))};
  const auto found = sets_.find(spec.name);
  if (found == sets_.end()) {
    ++writes_;
    sets_.emplace(spec.name, StoredSet{spec, {}});
    return {};
  }
  auto& set = found->second;
  const auto header = header_of(set.spec);
  const std::string reason = ipset::difference(header, spec);
  if (reason.empty()) return {};
  const std::string words = "set " + spec.name + " exists with " + reason;
  if (!ipset::may_swap(header, spec)) return Error{ErrorKind::already, 0, words};
  if (set.elements.size() > spec.max_elements)
    return Error{ErrorKind::io, 0, words + "; replace it: it is full"};
  end_listing(spec.name);
  // An old copy destroyed, the copy made, filled and swapped in, the old set destroyed.
  writes_ += set.elements.size() + 4;
  set.spec = spec;
  return {};
}

Result<std::optional<ListedSet>> FakeSetTable::list(const std::string& name) {
  if (auto fault = faults.next("list set " + name)) return *fault;
  unseen_.erase(name);
  return read(name);
}

Result<std::optional<ListedSet>> FakeSetTable::read(const std::string& name) const {
  if (Status status = check_name(name); !status) return status.error();
  if (const auto foreign = foreign_.find(name); foreign != foreign_.end())
    return Error{ErrorKind::unsupported, 0, "set " + name + " has type " + foreign->second};
  const auto found = sets_.find(name);
  if (found == sets_.end()) return std::optional<ListedSet>{};
  ListedSet listed{.spec = listed_spec(found->second.spec)};
  listed.elements.assign(found->second.elements.begin(), found->second.elements.end());
  return std::optional<ListedSet>(std::move(listed));
}

Result<std::optional<FakeSetTable::SetPart>> FakeSetTable::begin_list(const std::string& name) {
  const bool unseen = is_unseen(name);
  auto all = list(name);
  if (!all) return all.error();
  if (!*all) return std::optional<SetPart>{};
  if (unseen) unseen_.insert(name);
  sees_all_ = true;
  listing_ = name;
  listed_.reset();
  auto part = next_list();
  if (!part) return part.error();
  return std::optional<SetPart>(*std::move(part));
}

Result<FakeSetTable::SetPart> FakeSetTable::next_list() {
  if (listing_.empty()) return listing_ended();
  if (auto fault = faults.next("list set " + listing_)) return *fault;
  const StoredSet& set = sets_.at(listing_);
  SetPart part{.set = {.spec = listed_spec(set.spec)}};
  auto& elements = part.set.elements;
  auto next = listed_ ? set.elements.upper_bound(*listed_) : set.elements.begin();
  while (next != set.elements.end() && elements.size() < kAPart) elements.push_back(*next++);
  part.last = next == set.elements.end();
  if (part.last && sees_all_) unseen_.erase(listing_);
  if (part.last)
    listing_.clear();
  else
    listed_ = elements.back();
  return part;
}

void FakeSetTable::end_listing(const std::string& name) {
  if (listing_ == name) listing_.clear();
}

Status FakeSetTable::apply_one(const std::string& name, const ElementOp& op) {
  const auto found = sets_.find(name);
  if (found == sets_.end()) return Error{ErrorKind::missing, 0, "set " + name + " does not exist"};
  auto& set = found->second;
  const std::string refusal = std::visit(Refusal{set.spec}, op.element);
  if (!refusal.empty())
    return Error{ErrorKind::malformed, 0,
                 to_string(op.element) + " in set " + set.spec.name + ": " + refusal};
  ++writes_;
  if (!op.add) {
    set.elements.erase(op.element);
    return {};
  }
  auto& all = set.elements;
  const auto first = first_of_key(op.element);
  for (auto it = all.lower_bound(first); it != all.end() && first_of_key(*it) == first;)
    it = replaces(op.element, *it) ? all.erase(it) : std::next(it);
  const bool is_full = set.spec.kind != SetKind::bitmap_port && !ipset::is_nft(set.spec.kind) &&
                       set.elements.size() >= set.spec.max_elements;
  if (is_full && !set.elements.contains(op.element))
    return Error{ErrorKind::io, 0,
                 "add " + to_string(op.element) + " to set " + set.spec.name + ": it is full"};
  set.elements.insert(op.element);
  return {};
}

std::vector<Status> FakeSetTable::apply(const SetSpec& spec, std::span<const ElementOp> ops) {
  std::vector<Status> outcomes;
  outcomes.reserve(ops.size());
  for (const ElementOp& op : ops) {
    const std::string words =
        (op.add ? "add " : "remove ") + spec.name + " " + to_string(op.element);
    outcomes.push_back(
        faults.around(words, [this, name = spec.name, op] { return apply_one(name, op); }));
    if (after) after(spec.name, op);
  }
  return outcomes;
}

bool FakeSetTable::contains(const std::string& name, const Element& element) const {
  const auto found = sets_.find(name);
  return found != sets_.end() && found->second.elements.contains(element);
}

bool FakeSetTable::is_empty(const std::string& name) const {
  const auto found = sets_.find(name);
  return found == sets_.end() || found->second.elements.empty();
}

Status FakeSetTable::destroy(const std::string& name) {
  if (Status status = check_name(name); !status) return status;
  return faults.around("destroy set " + name, [this, name]() -> Status {
    if (held_.contains(name))
      return Error{ErrorKind::busy, 0, "destroy set " + name + ": it is in use"};
    ++writes_;
    end_listing(name);
    sets_.erase(name);
    foreign_.erase(name);
    return {};
  });
}

void FakeSetTable::vanish(bool destroyed) {
  note_foreign_hands();
  for (auto& [name, set] : sets_) set.elements.clear();
  if (!destroyed) return;
  listing_.clear();
  sets_.clear();
}

void FakeSetTable::note_foreign_hands() {
  for (const auto& [name, set] : sets_) note_foreign_hand(name);
}

void FakeSetTable::note_foreign_hand(const std::string& name) {
  unseen_.insert(name);
  if (listing_ == name) sees_all_ = false;
}

void FakeSetTable::make_foreign(const std::string& name, const std::string& type) {
  foreign_[name] = type;
}

void FakeSetTable::hold(const std::string& name) {
  held_.insert(name);
}

void FakeSetTable::release(const std::string& name) {
  held_.erase(name);
}

}  // namespace ipvsproxier::test

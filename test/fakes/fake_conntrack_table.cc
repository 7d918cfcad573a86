#include "test/fakes/fake_conntrack_table.h"

namespace ipvsproxier::test {

using namespace netlink;

Result<std::vector<Flow>> FakeConntrackTable::list(const FlowQuery& query) {
  ++listings_;
  if (auto fault = faults.next("list " + std::string(to_string(query.protocol)) + " flows"))
    return std::move(*fault);
  std::vector<Flow> result;
  for (const auto& [ends, flow] : flows_)
    if (result.size() < query.most && query.matches(flow)) result.push_back(flow);
  return result;
}

Result<ConntrackTable::FlowsPart> FakeConntrackTable::begin_list(
    Family family, const std::set<Protocol>& protocols) {
  ++listings_;
  listed_family_ = family;
  listed_protocols_ = protocols;
  listed_to_.reset();
  return next_list();
}

Result<ConntrackTable::FlowsPart> FakeConntrackTable::next_list() {
  if (auto fault = faults.next("list flows")) return std::move(*fault);
  FlowsPart part;
  auto it = listed_to_ ? flows_.upper_bound(*listed_to_) : flows_.begin();
  for (; it != flows_.end() && part.flows.size() < flows_a_part; ++it) {
    listed_to_ = it->first;
    if (it->second.destination.address.family() == listed_family_ &&
        listed_protocols_.contains(it->second.protocol))
      part.flows.push_back(it->second);
  }
  part.last = it == flows_.end();
  return part;
}

std::vector<Status> FakeConntrackTable::remove(std::span<const Flow> flows) {
  std::vector<Status> outcomes;
  for (const auto& flow : flows) {
    ++writes_;
    outcomes.push_back(faults.around("remove " + to_string(flow), [this, flow]() -> Status {
      const auto found = flows_.find({flow.protocol, flow.source, flow.destination});
      if (found != flows_.end() && found->second.id == flow.id) flows_.erase(found);
      return {};
    }));
  }
  return outcomes;
}

Flow FakeConntrackTable::track(const FlowEnd& source, const FlowEnd& destination,
                               const FlowEnd& server, Protocol protocol, bool answered) {
  const auto [place, fresh] =
      flows_.try_emplace({protocol, source, destination},
                         Flow{source, destination, server, last_id_ + 1, protocol, answered});
  if (fresh) ++last_id_;
  return place->second;
}

}  // namespace ipvsproxier::test

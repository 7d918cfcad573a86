#include "proxier/sync/scheduler_changes.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

namespace ipvsproxier::sync {

namespace {

using netlink::EditService;
using netlink::IpvsOp;
using netlink::VirtualService;

constexpr std::uint32_t kSchedulerFlags =
    netlink::kSchedulerFlag1 | netlink::kSchedulerFlag2 | netlink::kSchedulerFlag3;

// As it is, if the edit gives it another scheduler. Binding the first one waits for nobody.
const VirtualService* rescheduled(const IpvsOp& op, const plan::ActualState& kernel) {
  const auto* edit = std::get_if<EditService>(&op);
  if (edit == nullptr || !kernel.services) return nullptr;
  const auto actual = kernel.services->find(edit->service.key);
  if (actual == kernel.services->end()) return nullptr;
  const auto& service = actual->second.service;
  return service.scheduler != netlink::kNoScheduler && service.scheduler != edit->service.scheduler
             ? &service
             : nullptr;
}

api::NamespacedName owner_of(const IpvsOp& op, const plan::Planner& planner) {
  const auto* owner = planner.owner_of(netlink::service_of(op));
  return owner != nullptr ? *owner : api::NamespacedName{};
}

}  // namespace

void SchedulerChanges::begin() {
  made_ = 0;
  made_of_.clear();
}

std::map<api::NamespacedName, std::size_t> SchedulerChanges::grant(
    const std::map<api::NamespacedName, std::size_t>& asked) {
  std::map<api::NamespacedName, std::size_t> granted;
  auto next = asked.upper_bound(last_);
  for (std::size_t turns = 0; turns < asked.size() && made_ < kMost; ++turns, ++next) {
    if (next == asked.end()) next = asked.begin();
    const auto& [service, count] = *next;
    auto& made = made_of_[service];
    const auto now = std::min({count, kMostOfService - made, kMost - made_});
    made += now;
    made_ += now;
    granted[service] = now;
    last_ = service;
  }
  return granted;
}

plan::ServiceKeySet SchedulerChanges::hold(plan::Transaction& transaction,
                                           const plan::ActualState& kernel,
                                           const plan::Planner& planner) {
  std::map<api::NamespacedName, std::size_t> asked;
  for (const auto& phase : transaction.phases)
    if (const auto* ops = std::get_if<std::vector<IpvsOp>>(&phase.work))
      for (const auto& op : *ops)
        if (rescheduled(op, kernel) != nullptr) ++asked[owner_of(op, planner)];
  plan::ServiceKeySet left_out;
  if (asked.empty()) return left_out;
  auto granted = grant(asked);
  const auto is_left_out = [&](IpvsOp& op) {
    const auto* actual = rescheduled(op, kernel);
    if (actual == nullptr) return false;
    auto& may = granted[owner_of(op, planner)];
    if (may > 0) {
      --may;
      return false;
    }
    auto& wanted = std::get<EditService>(op).service;
    waiting_.services.insert(wanted.key);
    wanted.scheduler = actual->scheduler;
    wanted.flags = (wanted.flags & ~kSchedulerFlags) | (actual->flags & kSchedulerFlags);
    if (wanted != *actual) return false;
    left_out.insert(wanted.key);
    return true;
  };
  for (auto& phase : transaction.phases)
    if (auto* ops = std::get_if<std::vector<IpvsOp>>(&phase.work)) std::erase_if(*ops, is_left_out);
  std::erase_if(transaction.phases, [](const plan::Phase& phase) {
    return std::visit([](const auto& work) { return work.empty(); }, phase.work);
  });
  return left_out;
}

void SchedulerChanges::end(TimePoint now, TimePoint::duration took) {
  if (made_ > 0) rests_until_ = now + 2 * took;
}

std::optional<TimePoint> SchedulerChanges::next() const {
  return waiting() ? std::optional(rests_until_) : std::nullopt;
}

plan::Scope SchedulerChanges::due(TimePoint now) {
  return now < rests_until_ ? plan::Scope{} : std::exchange(waiting_, {});
}

}  // namespace ipvsproxier::sync

#include "proxier/sync/scheduler_changes.h"

#include <map>
#include <utility>
#include <variant>
#include <vector>

namespace ipvsproxier::sync {

namespace {

using netlink::EditService;
using netlink::IpvsOp;

// Binding the first scheduler waits for nobody.
bool changes_scheduler(const EditService& edit, const plan::ActualState& kernel) {
  if (!kernel.services) return false;
  const auto actual = kernel.services->find(edit.service.key);
  if (actual == kernel.services->end()) return false;
  const auto& scheduler = actual->second.service.scheduler;
  return scheduler != netlink::kNoScheduler && scheduler != edit.service.scheduler;
}

}  // namespace

void SchedulerChanges::hold(plan::Transaction& transaction, const plan::ActualState& kernel,
                            const plan::Planner& planner) {
  std::size_t all = 0;
  std::map<api::NamespacedName, std::size_t> of_service;
  const auto is_held = [&](const IpvsOp& op) {
    const auto* edit = std::get_if<EditService>(&op);
    if (edit == nullptr || !changes_scheduler(*edit, kernel)) return false;
    const auto* owner = planner.owner_of(edit->service.key);
    auto& count = of_service[owner != nullptr ? *owner : api::NamespacedName{}];
    if (all < kMost && count < kMostOfService) {
      ++all;
      ++count;
      return false;
    }
    waiting_.services.insert(edit->service.key);
    return true;
  };
  for (auto& phase : transaction.phases)
    if (auto* ops = std::get_if<std::vector<IpvsOp>>(&phase.work)) std::erase_if(*ops, is_held);
  std::erase_if(transaction.phases, [](const plan::Phase& phase) {
    return std::visit([](const auto& work) { return work.empty(); }, phase.work);
  });
}

plan::Scope SchedulerChanges::take() {
  return std::exchange(waiting_, {});
}

}  // namespace ipvsproxier::sync

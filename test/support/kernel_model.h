#pragma once

// The kernel in few lines: an ActualState that takes transactions. Every operation must make
// sense there (nothing added twice, nothing removed that is not there); a violation is counted.

#include "proxier/plan/actual_state.h"
#include "proxier/plan/diff.h"
#include "proxier/plan/transaction.h"

namespace ipvsproxier::test {

class KernelModel {
 public:
  plan::ActualState state;
  int violations = 0;

  // A kernel with nothing of ours in it.
  static KernelModel empty_for(const plan::DesiredState& desired) {
    KernelModel model;
    model.state.services.emplace();
    model.state.addresses.emplace();
    for (const auto& [key, elements] : desired.sets) model.state.sets[key] = std::nullopt;
    for (const auto& [family, parameters] : desired.rules)
      for (auto table : ipset::tables_of(desired.packet_filter))
        model.state.rules[{family, table}] = {family, table, {}, {}};
    return model;
  }

  void apply(const plan::Phase& phase) {
    std::visit(
        [this](const auto& work) {
          for (const auto& op : work) run(op);
        },
        phase.work);
  }
  void apply(const plan::Transaction& transaction) {
    for (const auto& phase : transaction.phases) apply(phase);
  }

  // As when all connections of draining real servers end.
  void finish_drains(const plan::DesiredState& desired) {
    for (auto& [key, service] : *state.services)
      for (const auto& server : plan::draining(desired, state, key)) service.servers->erase(server);
  }

 private:
  void expect(bool fine) { violations += fine ? 0 : 1; }

  void run(const ipset::SetSpec& spec) {
    for (auto& [key, set] : state.sets)
      if (ipset::set_name(key.id, key.family) == spec.name) expect(!set);
    state.commit(spec);
  }
  void run(const ipset::TableRules& rules) { state.commit(rules); }
  void run(const plan::SetChange& change) {
    for (const auto& op : change.ops) {
      expect(state.sets.at(change.set).value().contains(op.element) != op.add);
      state.commit(change.set, op);
    }
  }
  void run(const plan::BindingOp& op) {
    const auto places = state.addresses->places(op.binding.address);
    expect((std::count(places.begin(), places.end(), op.binding.place) != 0) != op.add);
    state.commit(op);
  }
  void run(const netlink::IpvsOp& op) {
    std::visit([this](const auto& one) { check(one); }, op);
    state.commit(op);
  }
  bool has(const netlink::VirtualServiceKey& key) const { return state.services->contains(key); }
  bool has(const netlink::VirtualServiceKey& key, const netlink::RealServerKey& server) const {
    return has(key) && state.services->at(key).servers.value().contains(server);
  }
  void check(const netlink::AddService& op) { expect(!has(op.service.key)); }
  void check(const netlink::EditService& op) { expect(has(op.service.key)); }
  void check(const netlink::DeleteService& op) { expect(has(op.key)); }
  void check(const netlink::AddServer& op) {
    expect(has(op.service) && !has(op.service, op.server.key));
  }
  void check(const netlink::EditServer& op) { expect(has(op.service, op.server.key)); }
  void check(const netlink::DeleteServer& op) { expect(has(op.service, op.server)); }
};

}  // namespace ipvsproxier::test

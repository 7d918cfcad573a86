#pragma once

// The kernel in forty lines: an ActualState that takes transactions. Every operation must make
// sense there (nothing added twice, nothing removed that is not there); a violation is counted.

#include "proxier/plan/actual_state.h"
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
      for (auto table : {ipset::Table::filter, ipset::Table::nat})
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

 private:
  void expect(bool fine) { violations += fine ? 0 : 1; }

  void run(const ipset::SetSpec& spec) {
    for (auto& [key, set] : state.sets)
      if (ipset::set_name(key.id, key.family) == spec.name) {
        expect(!set);
        set.emplace();
      }
  }
  void run(const ipset::TableRules& rules) { state.rules[{rules.family, rules.table}] = rules; }
  void run(const plan::SetChange& change) {
    auto& set = state.sets.at(change.set).value();
    for (const auto& op : change.ops)
      expect(op.add ? set.insert(op.element).second : set.erase(op.element) == 1);
  }
  void run(const netlink::AddressOp& op) {
    expect(op.add ? state.addresses->insert(op.address).second
                  : state.addresses->erase(op.address) == 1);
  }
  void run(const netlink::IpvsOp& op) {
    std::visit([this](const auto& one) { run(one); }, op);
  }
  void run(const netlink::AddService& op) {
    plan::ActualService service{op.service, std::map<netlink::RealServerKey, plan::ActualServer>{}};
    expect(state.services->emplace(op.service.key, service).second);
  }
  void run(const netlink::EditService& op) {
    state.services->at(op.service.key).service = op.service;
  }
  void run(const netlink::DeleteService& op) { expect(state.services->erase(op.key) == 1); }
  void run(const netlink::AddServer& op) {
    auto& servers = state.services->at(op.service).servers.value();
    expect(servers.emplace(op.server.key, plan::ActualServer{op.server, false}).second);
  }
  void run(const netlink::EditServer& op) {
    state.services->at(op.service).servers.value().at(op.server.key).server = op.server;
  }
  void run(const netlink::DeleteServer& op) {
    expect(state.services->at(op.service).servers.value().erase(op.server) == 1);
  }
};

}  // namespace ipvsproxier::test

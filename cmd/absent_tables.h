#pragma once

// Stand-ins for kernel tables that could not be opened at start (a missing module or privilege).
// Every operation returns the error of opening, so that the other tables are still programmed. On
// use the table is opened again, after pauses that grow to half a minute; once that succeeds, all
// operations go to the real table. Sync thread only.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipset/sets/set_table.h"
#include "netlink/conntrack/conntrack_table.h"
#include "netlink/ipvs/ipvs_table.h"
#include "netlink/links/link_table.h"
#include "proxier/loop/backoff.h"

namespace ipvsproxier::cmd {

// How to open a table again; without `open` it stays absent.
template <typename Table>
struct Reopening {
  std::function<netlink::Result<std::unique_ptr<Table>>()> open;
  std::function<void()> opened = [] {};  // called once, after success
  std::function<std::chrono::steady_clock::time_point()> now = [] {
    return std::chrono::steady_clock::now();
  };
};

template <typename Table>
class LateTable {
 public:
  LateTable(netlink::Error error, Reopening<Table> reopening)
      : error_(std::move(error)), reopening_(std::move(reopening)) {
    if (reopening_.open) postpone();
  }

  // The table, opened again if that is due; nullptr if it is still absent.
  Table* get() {
    if (table_ || !reopening_.open || reopening_.now() < due_) return table_.get();
    if (auto opened = reopening_.open()) {
      table_ = std::move(*opened);
      reopening_.opened();
    } else {
      error_ = std::move(opened.error());
      postpone();
    }
    return table_.get();
  }

  // The table if it is open; does not try to open it.
  const Table* here() const { return table_.get(); }
  const netlink::Error& error() const { return error_; }

 private:
  void postpone() { due_ = reopening_.now() + backoff_.delay(++failures_, 0); }

  netlink::Error error_;
  Reopening<Table> reopening_;
  loop::Backoff backoff_{std::chrono::seconds(1), std::chrono::seconds(30)};
  unsigned failures_ = 0;
  std::chrono::steady_clock::time_point due_;
  std::unique_ptr<Table> table_;
};

class AbsentIpvsTable : public netlink::IpvsTable {
 public:
  explicit AbsentIpvsTable(netlink::Error error, Reopening<netlink::IpvsTable> reopening = {})
      : late_(std::move(error), std::move(reopening)) {}

  std::vector<netlink::Status> apply(std::span<const netlink::IpvsOp> ops) override {
    if (auto* table = late_.get()) return table->apply(ops);
    return std::vector<netlink::Status>(ops.size(), late_.error());
  }
  netlink::Result<std::vector<netlink::VirtualService>> list_services() override {
    if (auto* table = late_.get()) return table->list_services();
    return late_.error();
  }
  netlink::Result<ServicesPart> begin_services() override {
    if (auto* table = late_.get()) return table->begin_services();
    return late_.error();
  }
  netlink::Result<ServicesPart> next_services() override {
    if (auto* table = late_.get()) return table->next_services();
    return late_.error();
  }
  netlink::Result<std::vector<netlink::ListedServer>> list_servers(
      const netlink::VirtualServiceKey& service) override {
    if (auto* table = late_.get()) return table->list_servers(service);
    return late_.error();
  }
  netlink::Result<netlink::IpvsTraffic> traffic(
      const netlink::VirtualServiceKey& service) override {
    if (auto* table = late_.get()) return table->traffic(service);
    return late_.error();
  }
  netlink::Result<bool> has_scheduler(netlink::ShortName scheduler) override {
    if (auto* table = late_.get()) return table->has_scheduler(scheduler);
    return late_.error();
  }
  netlink::Result<netlink::IpvsTimeouts> timeouts() override {
    if (auto* table = late_.get()) return table->timeouts();
    return late_.error();
  }
  netlink::Status set_timeouts(const netlink::IpvsTimeouts& timeouts) override {
    if (auto* table = late_.get()) return table->set_timeouts(timeouts);
    return late_.error();
  }
  std::uint64_t requests() const override {
    return late_.here() != nullptr ? late_.here()->requests() : 0;
  }

 private:
  LateTable<netlink::IpvsTable> late_;
};

class AbsentLinkTable final : public netlink::LinkTable {
 public:
  explicit AbsentLinkTable(netlink::Error error, Reopening<netlink::LinkTable> reopening = {})
      : late_(std::move(error), std::move(reopening)) {}

  netlink::Result<bool> ensure_dummy(std::string_view name) override {
    if (auto* table = late_.get()) return table->ensure_dummy(name);
    return late_.error();
  }
  netlink::Result<bool> remove_dummy(std::string_view name) override {
    if (auto* table = late_.get()) return table->remove_dummy(name);
    return late_.error();
  }
  netlink::Result<std::vector<std::string>> list_links() override {
    if (auto* table = late_.get()) return table->list_links();
    return late_.error();
  }
  netlink::Result<std::vector<netlink::InterfaceAddress>> list_addresses() override {
    if (auto* table = late_.get()) return table->list_addresses();
    return late_.error();
  }
  std::vector<netlink::Status> apply(std::string_view link,
                                     std::span<const netlink::AddressOp> ops) override {
    if (auto* table = late_.get()) return table->apply(link, ops);
    return std::vector<netlink::Status>(ops.size(), late_.error());
  }
  netlink::Result<std::vector<netlink::IpAddress>> list_local_routes() override {
    if (auto* table = late_.get()) return table->list_local_routes();
    return late_.error();
  }
  std::vector<netlink::Status> apply_local_routes(
      std::span<const netlink::AddressOp> ops) override {
    if (auto* table = late_.get()) return table->apply_local_routes(ops);
    return std::vector<netlink::Status>(ops.size(), late_.error());
  }
  netlink::Result<netlink::LoopReport> ensure_loop(const netlink::LoopSpec& spec,
                                                   bool dry) override {
    if (auto* table = late_.get()) return table->ensure_loop(spec, dry);
    return late_.error();
  }
  netlink::Result<bool> remove_loop(const netlink::LoopSpec& spec) override {
    if (auto* table = late_.get()) return table->remove_loop(spec);
    return late_.error();
  }
  std::uint64_t requests() const override {
    return late_.here() != nullptr ? late_.here()->requests() : 0;
  }

 private:
  LateTable<netlink::LinkTable> late_;
};

class AbsentSetTable : public ipset::SetTable {
 public:
  explicit AbsentSetTable(netlink::Error error, Reopening<ipset::SetTable> reopening = {})
      : late_(std::move(error), std::move(reopening)) {}

  netlink::Status ensure(const ipset::SetSpec& spec) override {
    if (auto* table = late_.get()) return table->ensure(spec);
    return late_.error();
  }
  netlink::Result<std::optional<ipset::ListedSet>> list(const std::string& name) override {
    if (auto* table = late_.get()) return table->list(name);
    return late_.error();
  }
  netlink::Result<std::optional<SetPart>> begin_list(const std::string& name) override {
    if (auto* table = late_.get()) return table->begin_list(name);
    return late_.error();
  }
  netlink::Result<SetPart> next_list() override {
    if (auto* table = late_.get()) return table->next_list();
    return late_.error();
  }
  std::vector<netlink::Status> apply(const ipset::SetSpec& spec,
                                     std::span<const ipset::ElementOp> ops) override {
    if (auto* table = late_.get()) return table->apply(spec, ops);
    return std::vector<netlink::Status>(ops.size(), late_.error());
  }
  netlink::Status destroy(const std::string& name) override {
    if (auto* table = late_.get()) return table->destroy(name);
    return late_.error();
  }
  std::uint64_t requests() const override {
    return late_.here() != nullptr ? late_.here()->requests() : 0;
  }

 private:
  LateTable<ipset::SetTable> late_;
};

class AbsentConntrackTable final : public netlink::ConntrackTable {
 public:
  explicit AbsentConntrackTable(netlink::Error error,
                                Reopening<netlink::ConntrackTable> reopening = {})
      : late_(std::move(error), std::move(reopening)) {}

  netlink::Result<std::vector<netlink::Flow>> list(const netlink::FlowQuery& query) override {
    if (auto* table = late_.get()) return table->list(query);
    return late_.error();
  }
  netlink::Result<std::size_t> count() override {
    if (auto* table = late_.get()) return table->count();
    return late_.error();
  }
  netlink::Result<FlowsPart> begin_list(netlink::Family family,
                                        const std::set<netlink::Protocol>& protocols) override {
    if (auto* table = late_.get()) return table->begin_list(family, protocols);
    return late_.error();
  }
  netlink::Result<FlowsPart> next_list() override {
    if (auto* table = late_.get()) return table->next_list();
    return late_.error();
  }
  std::vector<netlink::Status> remove(std::span<const netlink::Flow> flows) override {
    if (auto* table = late_.get()) return table->remove(flows);
    return std::vector<netlink::Status>(flows.size(), late_.error());
  }
  std::uint64_t requests() const override {
    return late_.here() != nullptr ? late_.here()->requests() : 0;
  }

 private:
  LateTable<netlink::ConntrackTable> late_;
};

}  // namespace ipvsproxier::cmd

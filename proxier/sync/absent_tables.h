#pragma once

// Kernel tables that could not be opened (a module or a privilege is missing): every operation
// answers the error of opening, so that the rest of the kernel is programmed all the same. Values;
// sync thread only.

#include <functional>
#include <memory>
#include <utility>

#include "ipset/set_table.h"
#include "netlink/conntrack_table.h"
#include "netlink/ipvs_table.h"
#include "netlink/link_table.h"

namespace ipvsproxier::sync {

class AbsentIpvsTable final : public netlink::IpvsTable {
 public:
  explicit AbsentIpvsTable(netlink::Error error) : error_(std::move(error)) {}

  std::vector<netlink::Status> apply(std::span<const netlink::IpvsOp> ops) override {
    return std::vector<netlink::Status>(ops.size(), error_);
  }
  netlink::Result<std::vector<netlink::VirtualService>> list_services() override { return error_; }
  netlink::Result<ServicesPart> begin_services() override { return error_; }
  netlink::Result<ServicesPart> next_services() override { return error_; }
  netlink::Result<std::vector<netlink::ListedServer>> list_servers(
      const netlink::VirtualServiceKey&) override {
    return error_;
  }
  netlink::Result<netlink::IpvsTimeouts> timeouts() override { return error_; }
  netlink::Status set_timeouts(const netlink::IpvsTimeouts&) override { return error_; }

 private:
  netlink::Error error_;
};

class AbsentLinkTable final : public netlink::LinkTable {
 public:
  explicit AbsentLinkTable(netlink::Error error) : error_(std::move(error)) {}

  netlink::Result<bool> ensure_dummy(std::string_view) override { return error_; }
  netlink::Result<bool> remove_dummy(std::string_view) override { return error_; }
  netlink::Result<std::vector<std::string>> list_links() override { return error_; }
  netlink::Result<std::vector<netlink::InterfaceAddress>> list_addresses() override {
    return error_;
  }
  std::vector<netlink::Status> apply(std::string_view,
                                     std::span<const netlink::AddressOp> ops) override {
    return std::vector<netlink::Status>(ops.size(), error_);
  }
  netlink::Result<std::vector<netlink::IpAddress>> list_local_routes() override { return error_; }
  std::vector<netlink::Status> apply_local_routes(
      std::span<const netlink::AddressOp> ops) override {
    return std::vector<netlink::Status>(ops.size(), error_);
  }

 private:
  netlink::Error error_;
};

class AbsentSetTable final : public ipset::SetTable {
 public:
  explicit AbsentSetTable(netlink::Error error) : error_(std::move(error)) {}

  netlink::Status ensure(const ipset::SetSpec&) override { return error_; }
  netlink::Result<std::optional<ipset::ListedSet>> list(const std::string&) override {
    return error_;
  }
  std::vector<netlink::Status> apply(const ipset::SetSpec&,
                                     std::span<const ipset::ElementOp> ops) override {
    return std::vector<netlink::Status>(ops.size(), error_);
  }
  netlink::Status destroy(const std::string&) override { return error_; }

 private:
  netlink::Error error_;
};

// One that is opened when it is asked, again each time until that succeeds: its module may come
// later.
class LateConntrackTable final : public netlink::ConntrackTable {
 public:
  using Open = std::function<netlink::Result<std::unique_ptr<netlink::ConntrackTable>>()>;
  explicit LateConntrackTable(Open open) : open_(std::move(open)) {}

  netlink::Result<std::vector<netlink::UdpFlow>> list_udp(
      const netlink::FlowQuery& query) override {
    if (const auto opened = ensure_open(); !opened) return opened.error();
    return table_->list_udp(query);
  }
  std::vector<netlink::Status> remove(std::span<const netlink::UdpFlow> flows) override {
    if (const auto opened = ensure_open(); !opened)
      return std::vector<netlink::Status>(flows.size(), opened);
    return table_->remove(flows);
  }
  std::uint64_t requests() const override { return table_ ? table_->requests() : 0; }

 private:
  netlink::Status ensure_open() {
    if (table_) return {};
    auto opened = open_();
    if (!opened) return opened.error();
    table_ = *std::move(opened);
    return {};
  }

  Open open_;
  std::unique_ptr<netlink::ConntrackTable> table_;
};

}  // namespace ipvsproxier::sync

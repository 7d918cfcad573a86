#pragma once

// FakeLinkTable: links and addresses in memory, refusing what Linux 6.1 refuses. Starts with `lo`
// and its two addresses. Lists are in order of link, then address.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "netlink/links/link_table.h"
#include "test/fakes/fault_injector.h"

namespace ipvsproxier::test {

class FakeLinkTable final : public netlink::LinkTable {
 public:
  FakeLinkTable();

  netlink::Result<bool> ensure_dummy(std::string_view name) override;
  netlink::Result<bool> remove_dummy(std::string_view name) override;
  netlink::Result<std::vector<std::string>> list_links() override;
  netlink::Result<std::vector<netlink::InterfaceAddress>> list_addresses() override;
  std::vector<netlink::Status> apply(std::string_view link,
                                     std::span<const netlink::AddressOp> ops) override;
  netlink::Result<std::vector<netlink::IpAddress>> list_local_routes() override;
  std::vector<netlink::Status> apply_local_routes(std::span<const netlink::AddressOp> ops) override;
  netlink::Result<netlink::LoopReport> ensure_loop(const netlink::LoopSpec& spec,
                                                   bool dry) override;
  netlink::Result<bool> remove_loop(const netlink::LoopSpec& spec) override;

  // Consulted before every operation and listing.
  FaultInjector faults;

  // Called after every operation on an address or route, whatever became of it.
  std::function<void(const netlink::AddressOp&)> after;

  // What is there, past all faults; with contains(), whether a host address is.
  std::vector<netlink::InterfaceAddress> addresses() const;
  bool contains(std::string_view link, const netlink::IpAddress& address) const;
  bool is_bound(const netlink::IpAddress& address) const;  // on a dummy, or by a route
  const std::set<netlink::IpAddress>& local_routes() const { return routes_; }

  // Somebody else's link ("veth") or address.
  void add_link(const std::string& name, const std::string& kind);
  void add_address(const netlink::InterfaceAddress& address);
  void remove_address(const netlink::InterfaceAddress& address);
  void remove_link(const std::string& name);
  // Routes of loops, with those of the table "local"; others' hands may change them.
  std::set<netlink::IpAddress>& loop_routes() { return loop_routes_; }
  void remove_local_route(const netlink::IpAddress& address) { routes_.erase(address); }

  // Address and route operations, link creations and removals received so far, the failed ones
  // included.
  std::size_t writes() const { return writes_; }
  std::size_t listings() const { return listings_; }

 private:
  struct Link {
    std::string kind;
    std::set<std::pair<netlink::IpAddress, std::uint8_t>> addresses;
  };

  netlink::Result<bool> take_dummy(std::string_view name, const std::string& what);
  netlink::Result<bool> make_dummy(std::string_view name, const std::string& what);
  netlink::Status apply_one(std::string_view link, const netlink::AddressOp& op);

  std::map<std::string, Link, std::less<>> links_;
  bool is_loop(const netlink::LoopSpec& spec) const;
  netlink::Result<netlink::LoopReport> make_loop(const netlink::LoopSpec& spec, bool dry);

  std::set<netlink::IpAddress> routes_;
  std::set<netlink::IpAddress> loop_routes_;
  std::size_t writes_ = 0;
  std::size_t listings_ = 0;
};

}  // namespace ipvsproxier::test

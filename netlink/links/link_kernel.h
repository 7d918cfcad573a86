#pragma once

// KernelLinkTable: the links and addresses of the network namespace in which it was opened, over
// rtnetlink. Sync thread only. Opening and destroying change nothing. A table that could not be
// opened opens itself when it is used (NlChannel).

#include <functional>
#include <memory>
#include <string>

#include "netlink/links/link_table.h"
#include "netlink/links/link_types.h"
#include "netlink/nl_channel.h"

namespace ipvsproxier::netlink {

class KernelLinkTable final : public LinkTable {
 public:
  // Called after IPv6 was enabled on one of these links, with the key and the values before and
  // after.
  using Ipv6Enabled = std::function<void(const std::string& what)>;

  // With `ipv6_enabled`, the links of this class have IPv6 although
  // net.ipv6.conf.default.disable_ipv6 is set, except where all of IPv6 is disabled
  // (ipv6_is_disabled()). Without it, no such key is written.
  static Result<std::unique_ptr<KernelLinkTable>> open(const NlOptions& options = {},
                                                       Ipv6Enabled ipv6_enabled = {});
  explicit KernelLinkTable(const NlOpening& opening, const NlOptions& options = {},
                           Ipv6Enabled ipv6_enabled = {});
  Status ready() { return channel_.ready(); }

  // `missing` with the module's name if the kernel cannot make dummy links.
  Result<bool> ensure_dummy(std::string_view name) override;
  Result<bool> remove_dummy(std::string_view name) override;
  Result<std::vector<std::string>> list_links() override;
  Result<std::vector<InterfaceAddress>> list_addresses() override;
  // If the link does not exist, removals succeed and additions are `missing`.
  std::vector<Status> apply(std::string_view link, std::span<const AddressOp> ops) override;
  Result<std::vector<IpAddress>> list_local_routes() override;
  std::vector<Status> apply_local_routes(std::span<const AddressOp> ops) override;
  // `missing` with the module's name if the kernel cannot make veth links.
  Result<LoopReport> ensure_loop(const LoopSpec& spec, bool dry) override;
  Result<bool> remove_loop(const LoopSpec& spec) override;

  const NlCounters& counters() const { return channel_.counters(); }
  std::uint64_t requests() const override { return counters().requests(); }

 private:
  void enable_ipv6(std::string_view name) const;

  NlChannel channel_;
  const Ipv6Enabled ipv6_enabled_;
};

// All links or addresses that rtnetlink lists over this channel, in the kernel's order.
Result<std::vector<LinkRecord>> dump_links(NlChannel& channel);
Result<std::vector<AddressRecord>> dump_addresses(NlChannel& channel);

}  // namespace ipvsproxier::netlink

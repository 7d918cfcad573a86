#include "netlink/links/link_kernel.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "netlink/links/link_codec.h"
#include "netlink/links/loop_kernel.h"
#include "netlink/sysctl.h"

namespace ipvsproxier::netlink {

namespace {

constexpr std::string_view kDummyKind = "dummy";

NlOptions with_filtered_dumps(NlOptions options) {
  options.filtered_dumps = true;
  return options;
}

Result<LinkRecord> find_link(NlChannel& channel, std::string_view name) {
  const auto reply = channel.query(Operation::link, encode_get_link(name));
  if (!reply) return in_context(reply.error(), fmt::format("find link {}", name));
  return decode_link(*reply);
}

// True if it was created, false if another program created it just now.
Result<bool> create_dummy(NlChannel& channel, std::string_view name) {
  const Bytes request = encode_new_dummy(name);
  const auto status = channel.transact(Operation::link, std::span(&request, 1)).front();
  if (status) return true;
  auto error = status.error();
  if (error.sys_errno == EEXIST) return false;
  // rtnetlink.c, __rtnl_newlink: no rtnl_link_ops of this kind, even after the kernel asked for the
  // module.
  if (error.sys_errno == EOPNOTSUPP)
    error = Error{ErrorKind::missing, EOPNOTSUPP,
                  "this kernel has no dummy links: load module dummy (modprobe dummy) on the host"};
  return in_context(std::move(error), fmt::format("create dummy link {}", name));
}

Error not_a_dummy(std::string_view tried, const LinkRecord& link) {
  return Error{ErrorKind::already, 0,
               fmt::format("{} dummy link {}: a link of this name exists and is not a dummy but {}",
                           tried, link.name, link.kind.empty() ? "of no kind" : link.kind)};
}

// Whether the error says that the address already is, or is not, on the link.
bool is_no_change(const AddressOp& op, const Error& error) {
  return error.kind == (op.add ? ErrorKind::already : ErrorKind::missing) &&
         error.sys_errno != ENODEV;
}

// Sends the requests of `ops`; one outcome for each.
std::vector<Status> transact_ops(NlChannel& channel, Operation operation,
                                 const std::vector<Bytes>& requests,
                                 std::span<const AddressOp> ops) {
  auto outcomes = channel.transact(operation, requests);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (!outcomes[i] && is_no_change(ops[i], outcomes[i].error())) outcomes[i] = Status{};
  return outcomes;
}

}  // namespace

Result<std::vector<LinkRecord>> dump_links(NlChannel& channel) {
  std::vector<LinkRecord> records;
  const auto links =
      channel.dump(Operation::link, encode_list_links(), [&](ByteView payload) -> Status {
        auto link = decode_link(payload);
        if (!link) return link.error();
        records.push_back(*std::move(link));
        return {};
      });
  if (!links) return in_context(links.error(), "list links");
  return records;
}

Result<std::vector<AddressRecord>> dump_addresses(NlChannel& channel) {
  std::vector<AddressRecord> records;
  const auto addresses =
      channel.dump(Operation::address, encode_list_addresses(), [&](ByteView payload) -> Status {
        auto record = decode_address(payload);
        if (record)
          records.push_back(*record);
        else if (record.error().kind != ErrorKind::unsupported)
          return record.error();
        return {};
      });
  if (!addresses) return in_context(addresses.error(), "list addresses");
  return records;
}

Result<std::unique_ptr<KernelLinkTable>> KernelLinkTable::open(const NlOptions& options,
                                                               Ipv6Enabled ipv6_enabled) {
  auto table = std::make_unique<KernelLinkTable>(NlOpening{}, options, std::move(ipv6_enabled));
  if (const auto open = table->ready(); !open) return in_context(open.error(), "open rtnetlink");
  return table;
}

KernelLinkTable::KernelLinkTable(const NlOpening& opening, const NlOptions& options,
                                 Ipv6Enabled ipv6_enabled)
    : channel_(NETLINK_ROUTE, with_filtered_dumps(options), opening),
      ipv6_enabled_(std::move(ipv6_enabled)) {}

// addrconf.c: a link with disable_ipv6 takes no address and no route of IPv6. A failure shows when
// one is added.
void KernelLinkTable::enable_ipv6(std::string_view name) const {
  if (!ipv6_enabled_) return;
  const Sysctl sysctls;
  const auto key = fmt::format("net/ipv6/conf/{}/disable_ipv6", name);
  const auto before = sysctls.read(key);
  if (!before || *before == "0" || ipv6_is_disabled()) return;
  if (sysctls.ensure(key, "0")) ipv6_enabled_(fmt::format("sysctl {} from {} to 0", key, *before));
}

Result<bool> KernelLinkTable::ensure_dummy(std::string_view name) {
  auto link = find_link(channel_, name);
  if (!link && link.error().kind == ErrorKind::missing) {
    auto created = create_dummy(channel_, name);
    if (created && *created) enable_ipv6(name);
    if (!created || *created) return created;
    link = find_link(channel_, name);
  }
  if (!link) return link.error();
  if (link->kind != kDummyKind) return not_a_dummy("create", *link);
  enable_ipv6(name);
  return false;
}

Result<bool> KernelLinkTable::remove_dummy(std::string_view name) {
  const auto link = find_link(channel_, name);
  if (!link && link.error().kind == ErrorKind::missing) return false;
  if (!link) return link.error();
  if (link->kind != kDummyKind) return not_a_dummy("remove", *link);
  const Bytes request = encode_delete_link(link->index);
  const auto status = channel_.transact(Operation::link, std::span(&request, 1)).front();
  if (status) return true;
  // Another program removed it just now.
  if (status.error().kind == ErrorKind::missing) return false;
  return in_context(status.error(), fmt::format("remove dummy link {}", name));
}

Result<std::vector<std::string>> KernelLinkTable::list_links() {
  const auto links = dump_links(channel_);
  if (!links) return links.error();
  std::vector<std::string> names;
  for (const auto& link : *links) names.push_back(link.name);
  return names;
}

Result<std::vector<InterfaceAddress>> KernelLinkTable::list_addresses() {
  const auto records = dump_addresses(channel_);
  if (!records) return records.error();

  // Listed after the addresses, so that every address of an existing link finds the link's name.
  const auto links = dump_links(channel_);
  if (!links) return links.error();
  std::map<std::int32_t, const LinkRecord*> by_index;
  for (const auto& link : *links) by_index.emplace(link.index, &link);

  std::vector<InterfaceAddress> result;
  result.reserve(records->size());
  for (const auto& record : *records)
    if (const auto found = by_index.find(record.link_index); found != by_index.end()) {
      const auto& link = *found->second;
      result.push_back(InterfaceAddress{link.name, record.address, record.prefix_length,
                                        link.kind == kDummyKind});
    }
  return result;
}

std::vector<Status> KernelLinkTable::apply(std::string_view link, std::span<const AddressOp> ops) {
  std::vector<Status> outcomes(ops.size());
  if (ops.empty()) return outcomes;
  const auto found = find_link(channel_, link);
  if (!found) {
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (ops[i].add || found.error().kind != ErrorKind::missing)
        outcomes[i] = in_context(found.error(), to_string(ops[i]));
    return outcomes;
  }
  std::vector<Bytes> requests;
  requests.reserve(ops.size());
  for (const auto& op : ops) requests.push_back(encode_address_op(found->index, op));
  outcomes = transact_ops(channel_, Operation::address, requests, ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (outcomes[i]) continue;
    auto error = outcomes[i].error();
    // addrconf.c, ipv6_add_addr: EADDRNOTAVAIL for an address that no such link can have. EINVAL
    // comes from the state of the link, for example an MTU too small for IPv6.
    if (error.kind == ErrorKind::malformed) error.kind = ErrorKind::io;
    if (ops[i].add && error.sys_errno == EADDRNOTAVAIL) error.kind = ErrorKind::malformed;
    auto what = fmt::format("{} on link {}", to_string(ops[i]), link);
    // addrconf.c: EACCES means that IPv6 is disabled; a missing privilege is EPERM.
    if (error.sys_errno == EACCES) what += ", where sysctl disable_ipv6 is set";
    outcomes[i] = in_context(std::move(error), what);
  }
  return outcomes;
}

Result<std::vector<IpAddress>> KernelLinkTable::list_local_routes() {
  std::vector<IpAddress> routes;
  for (const auto family : kFamilies) {
    const auto dumped = channel_.dump(Operation::route, encode_list_local_routes(family),
                                      [&](ByteView payload) -> Status {
                                        auto route = decode_local_route(payload);
                                        if (!route) return route.error();
                                        if (*route && (*route)->family() == family)
                                          routes.push_back(**route);
                                        return {};
                                      });
    if (!dumped)
      return in_context(dumped.error(), fmt::format("list {} local routes", to_string(family)));
  }
  return routes;
}

Result<LoopReport> KernelLinkTable::ensure_loop(const LoopSpec& spec, bool dry) {
  auto report = netlink::ensure_loop(channel_, spec, dry);
  if (!report || !ipv6_enabled_) return report;
  const auto refused = report->failed.find(Family::ipv6);
  if (refused == report->failed.end() || refused->second.sys_errno != EACCES) return report;
  enable_ipv6(spec.first);
  enable_ipv6(spec.second);
  auto again = netlink::ensure_loop(channel_, spec, dry);
  if (again) std::ranges::copy(report->written, std::back_inserter(again->written));
  return again;
}

Result<bool> KernelLinkTable::remove_loop(const LoopSpec& spec) {
  return netlink::remove_loop(channel_, spec);
}

std::vector<Status> KernelLinkTable::apply_local_routes(std::span<const AddressOp> ops) {
  std::vector<Bytes> requests;
  requests.reserve(ops.size());
  for (const auto& op : ops) requests.push_back(encode_local_route_op(op));
  auto outcomes = transact_ops(channel_, Operation::route, requests, ops);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (!outcomes[i]) outcomes[i] = in_context(outcomes[i].error(), local_route_text(ops[i]));
  return outcomes;
}

}  // namespace ipvsproxier::netlink

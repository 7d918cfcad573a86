#include "netlink/ipvs/ipvs_kernel.h"

#include <algorithm>
#include <cerrno>

#include <linux/netlink.h>

#include <fmt/format.h>

#include "netlink/ipvs/ipvs_apply.h"
#include "netlink/ipvs/ipvs_codec.h"

namespace ipvsproxier::netlink {

namespace {

// Datagrams in a part of a listing, some 100 virtual services each.
constexpr int kDatagramsAPart = 2;

// Appends a service; leaves out entries that VirtualService cannot express.
Status add_service(ByteView payload, std::vector<VirtualService>& services) {
  auto service = decode_service(payload);
  if (service)
    services.push_back(*service);
  else if (service.error().kind != ErrorKind::unsupported)
    return service.error();
  return {};
}

}  // namespace

Result<std::unique_ptr<KernelIpvsTable>> KernelIpvsTable::open(const NlOptions& options) {
  auto table = std::make_unique<KernelIpvsTable>(NlOpening{}, options);
  if (const auto open = table->ready(); !open) return open.error();
  return table;
}

KernelIpvsTable::KernelIpvsTable(const NlOpening& opening, const NlOptions& options)
    : channel_(NETLINK_GENERIC, options, opening,
               [this](NlChannel& channel) { return find_family(channel); }),
      parts_(NETLINK_GENERIC, options, {}) {}

Status KernelIpvsTable::find_family(NlChannel& channel) {
  const auto family = resolve_ipvs(channel);
  if (!family) return family.error();
  family_ = *family;
  return {};
}

std::vector<Status> KernelIpvsTable::apply(std::span<const IpvsOp> ops) {
  if (const auto open = ready(); !open) return std::vector<Status>(ops.size(), open);
  const auto send = [&] {
    return apply_ipvs_ops(family_, ops, [this](std::span<const Bytes> requests) {
      return channel_.transact(Operation::generic, requests);
    });
  };
  auto statuses = send();
  const bool all_missing = std::ranges::all_of(
      statuses, [](const auto& status) { return !status && status.error().sys_errno == ENOENT; });
  if (statuses.empty() || !all_missing) return statuses;
  // As with_family(): the module may have come back under another id.
  const auto family = family_;
  if (!find_family(channel_) || family == family_) return statuses;
  return send();
}

NlCounters KernelIpvsTable::counters() const {
  auto all = channel_.counters();
  all.datagrams += parts_.counters().datagrams;
  all.dump_requests += parts_.counters().dump_requests;
  return all;
}

// Asks again with a new family id if the module was reloaded: genl_rcv_msg
// (net/netlink/genetlink.c) answers ENOENT for an unknown id. A request of these callers that gets
// ENOENT for another reason is sent twice.
template <typename Ask>
auto KernelIpvsTable::with_family(Ask ask) -> decltype(ask()) {
  if (const auto open = ready(); !open) return open.error();
  auto answer = ask();
  if (answer || answer.error().sys_errno != ENOENT) return answer;
  if (const auto found = find_family(channel_); !found) return found.error();
  return ask();
}

// Decoded as the messages arrive: with all the kernel's counters, the messages of a large table
// would take five times the memory of the result. IPVS never marks a dump as interrupted.
Result<std::vector<VirtualService>> KernelIpvsTable::list_services() {
  std::vector<VirtualService> services;
  const auto status = with_family([&] {
    return channel_.stream_whole(
        Operation::ipvs_service, encode_list_services(family_), [&] { services.clear(); },
        [&](ByteView payload) { return add_service(payload, services); });
  });
  if (status) return services;
  return in_context(status.error(), "list virtual services");
}

Result<IpvsTable::ServicesPart> KernelIpvsTable::begin_services() {
  return with_family([this]() -> Result<ServicesPart> {
    if (const auto begun = parts_.begin_dump(encode_list_services(family_)); !begun)
      return in_context(begun.error(), "list virtual services");
    return next_services();
  });
}

Result<IpvsTable::ServicesPart> KernelIpvsTable::next_services() {
  ServicesPart part;
  for (int i = 0; i < kDatagramsAPart && !part.last; ++i) {
    const auto more = parts_.next_of_dump(Operation::ipvs_service, [&](ByteView payload) {
      return add_service(payload, part.services);
    });
    if (!more) return in_context(more.error(), "list virtual services");
    part.last = !*more;
  }
  return part;
}

Result<std::vector<ListedServer>> KernelIpvsTable::list_servers(const VirtualServiceKey& service) {
  std::vector<ListedServer> servers;
  const auto failed = [&service](const Error& error) {
    return in_context(error,
                      fmt::format("list real servers of virtual service {}", to_string(service)));
  };
  const auto add_server = [&](ByteView payload) -> Status {
    auto server = decode_server(payload, service.address.family());
    if (server)
      servers.push_back(*server);
    else if (server.error().kind != ErrorKind::unsupported)
      return server.error();
    return {};
  };
  const auto status = with_family([&] {
    return channel_.dump(Operation::ipvs_server, encode_list_servers(family_, service), add_server);
  });
  if (!status) return failed(status.error());
  // ip_vs_genl_dump_dests answers for an absent service as for a service without servers.
  if (servers.empty())
    if (const auto known =
            channel_.query(Operation::ipvs_service, encode_get_service(family_, service));
        !known)
      return failed(known.error());
  return servers;
}

Result<IpvsTraffic> KernelIpvsTable::traffic(const VirtualServiceKey& service) {
  const auto reply = with_family([&] {
    return channel_.query(Operation::ipvs_service, encode_get_service(family_, service));
  });
  auto traffic = reply ? decode_traffic(*reply, service) : reply.error();
  if (traffic) return traffic;
  return in_context(traffic.error(),
                    fmt::format("read the counters of virtual service {}", to_string(service)));
}

// The kernel looks for the scheduler of a new virtual service, and answers ENOENT without one,
// before it refuses the prefix length 0 of an IPv6 one with EINVAL (ip_vs_add_service, ip_vs_ctl.c,
// 6.1). So this virtual service is never added. A kernel without IPv6 answers EAFNOSUPPORT to all.
Result<bool> KernelIpvsTable::has_scheduler(ShortName scheduler) {
  if (const auto open = ready(); !open) return open.error();
  const IpvsOp probe = AddService{.service = {.key = {IpAddress::any(Family::ipv6)},
                                              .scheduler = scheduler,
                                              .netmask_bits = 0}};
  const auto answer = with_family(
      [&] { return channel_.query(Operation::generic, encode_ipvs_op(family_, probe)); });
  if (answer) return true;
  if (answer.error().sys_errno == ENOENT) return false;
  if (answer.error().sys_errno == EINVAL) return true;
  return in_context(answer.error(),
                    fmt::format("look for the IPVS scheduler {}", scheduler.view()));
}

Result<IpvsTimeouts> KernelIpvsTable::timeouts() {
  const auto reply = with_family(
      [this] { return channel_.query(Operation::generic, encode_get_timeouts(family_)); });
  if (!reply) return in_context(reply.error(), "read IPVS timeouts");
  return decode_timeouts(*reply);
}

Status KernelIpvsTable::set_timeouts(const IpvsTimeouts& wanted) {
  const auto actual = timeouts();
  if (!actual) return actual.error();
  const auto differs = [](std::uint32_t want, std::uint32_t have) {
    return want != 0 && want != have;
  };
  if (!differs(wanted.tcp, actual->tcp) && !differs(wanted.tcp_fin, actual->tcp_fin) &&
      !differs(wanted.udp, actual->udp))
    return {};
  const Bytes request = encode_set_timeouts(family_, wanted);
  auto answers = channel_.transact(Operation::generic, std::span(&request, 1));
  if (answers[0]) return {};
  return in_context(answers[0].error(), fmt::format("set IPVS timeouts tcp {} tcpfin {} udp {}",
                                                    wanted.tcp, wanted.tcp_fin, wanted.udp));
}

}  // namespace ipvsproxier::netlink

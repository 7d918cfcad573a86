#include "netlink/ipvs_kernel.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "netlink/ipvs_codec.h"

namespace ipvsproxier::netlink {

namespace {

constexpr int kRounds = 3;
constexpr int kDatagramsAPart = 2;  // of a listing, some 100 virtual services each

std::optional<RealServerKey> server_of(const IpvsOp& op) {
  if (const auto* add = std::get_if<AddServer>(&op)) return add->server.key;
  if (const auto* edit = std::get_if<EditServer>(&op)) return edit->server.key;
  if (const auto* remove = std::get_if<DeleteServer>(&op)) return remove->server;
  return std::nullopt;
}

const VirtualService* written_service(const IpvsOp& op) {
  if (const auto* add = std::get_if<AddService>(&op)) return &add->service;
  if (const auto* edit = std::get_if<EditService>(&op)) return &edit->service;
  return nullptr;
}

// What VirtualService cannot express is left out.
Status add_service(ByteView payload, std::vector<VirtualService>& services) {
  auto service = decode_service(payload);
  if (service)
    services.push_back(*service);
  else if (service.error().kind != ErrorKind::unsupported)
    return service.error();
  return {};
}

Operation operation_of(const IpvsOp& op) {
  return server_of(op) ? Operation::ipvs_server : Operation::ipvs_service;
}

// How many operations at the front are about keys that ascend, none a service's deletion: these are
// all different. So are those of a first sync.
std::size_t ascending_prefix(std::span<const IpvsOp> ops) {
  const auto key_of = [](const IpvsOp& op) {
    return std::pair<const VirtualServiceKey&, std::optional<RealServerKey>>(service_of(op),
                                                                             server_of(op));
  };
  std::size_t count = 0;
  while (count < ops.size() && !std::holds_alternative<DeleteService>(ops[count]) &&
         (count == 0 || key_of(ops[count - 1]) < key_of(ops[count])))
    ++count;
  return count;
}

// How many operations at the front touch different things, so that the order of a window's second
// round does not matter: one operation for each service and each server, and a service's deletion
// apart from everything else about it.
std::size_t independent_prefix(std::span<const IpvsOp> ops) {
  std::set<VirtualServiceKey> named;
  std::set<VirtualServiceKey> deleted;
  std::set<std::pair<VirtualServiceKey, std::optional<RealServerKey>>> written;
  ops = ops.first(std::min(ops.size(), NlChannel::kWindow));
  if (ascending_prefix(ops) == ops.size()) return ops.size();
  std::size_t count = 0;
  for (const auto& op : ops) {
    const auto& service = service_of(op);
    const bool deletes = std::holds_alternative<DeleteService>(op);
    if (deleted.contains(service) || (deletes && named.contains(service))) break;
    if (!written.emplace(service, server_of(op)).second) break;
    named.insert(service);
    if (deletes) deleted.insert(service);
    ++count;
  }
  return count;
}

// The operation that reaches the same end from where the kernel really is, if there is one.
std::optional<IpvsOp> turned(const IpvsOp& op, const Error& error) {
  // ip_vs_ctl.c: EEXIST for what exists, ESRCH for an absent service, ENOENT for an absent server,
  // but also ENOENT for a scheduler or an engine of a service.
  if (error.sys_errno == EEXIST) {
    if (const auto* add = std::get_if<AddService>(&op)) return EditService{add->service};
    if (const auto* add = std::get_if<AddServer>(&op)) return EditServer{add->service, add->server};
  }
  if (error.sys_errno == ESRCH)
    if (const auto* edit = std::get_if<EditService>(&op)) return AddService{edit->service};
  if (error.sys_errno == ENOENT)
    if (const auto* edit = std::get_if<EditServer>(&op))
      return AddServer{edit->service, edit->server};
  return std::nullopt;
}

// What is to go, or to drain, is gone already.
bool is_removal_of_nothing(const IpvsOp& op, const Error& error) {
  if (error.kind != ErrorKind::missing) return false;
  const auto* edit = std::get_if<EditServer>(&op);
  return std::holds_alternative<DeleteService>(op) || std::holds_alternative<DeleteServer>(op) ||
         (edit && edit->server.weight == 0 && error.sys_errno == ENOENT);
}

Error explain(const IpvsOp& op, Error error) {
  const auto* service = written_service(op);
  if (service && error.sys_errno == ENOENT) {
    const auto scheduler = service->scheduler.view();
    error.where = service->persistence_engine.empty()
                      ? fmt::format("the kernel has no scheduler \"{}\" (module ip_vs_{})",
                                    scheduler, scheduler)
                      : fmt::format(
                            "the kernel has no scheduler \"{}\" or no persistence engine "
                            "\"{}\"",
                            scheduler, service->persistence_engine.view());
  } else if (server_of(op) && error.sys_errno == ESRCH) {
    error.where = "there is no such virtual service";
  }
  return in_context(std::move(error), to_string(op));
}

}  // namespace

Result<std::unique_ptr<KernelIpvsTable>> KernelIpvsTable::open(const NlOptions& options) {
  auto opened = IpvsChannel::open(options);
  if (!opened) return opened.error();
  auto parts = NlChannel::open(NETLINK_GENERIC, options);
  if (!parts) return in_context(parts.error(), "open IPVS");
  return std::unique_ptr<KernelIpvsTable>(
      new KernelIpvsTable(std::move(*opened), std::move(*parts)));
}

std::vector<Status> KernelIpvsTable::apply(std::span<const IpvsOp> ops) {
  std::vector<Status> outcomes;
  outcomes.reserve(ops.size());
  while (!ops.empty()) {
    const auto count = independent_prefix(ops);
    auto window = apply_independent(ops.first(count));
    std::ranges::move(window, std::back_inserter(outcomes));
    ops = ops.subspan(count);
  }
  return outcomes;
}

std::vector<Status> KernelIpvsTable::apply_independent(std::span<const IpvsOp> ops) {
  std::vector<Status> outcomes(ops.size());
  std::map<std::size_t, IpvsOp> turned_ops;
  const auto op_at = [&](std::size_t i) -> const IpvsOp& {
    const auto it = turned_ops.find(i);
    return it == turned_ops.end() ? ops[i] : it->second;
  };
  std::vector<std::size_t> pending(ops.size());
  for (std::size_t i = 0; i < pending.size(); ++i) pending[i] = i;

  for (int round = 0; round < kRounds && !pending.empty(); ++round) {
    std::vector<Bytes> requests;
    requests.reserve(pending.size());
    for (const auto i : pending) requests.push_back(encode_ipvs_op(family_, op_at(i)));
    auto answers = channel_.transact(Operation::generic, requests);

    std::vector<std::size_t> again;
    std::set<VirtualServiceKey> recovering;
    for (std::size_t n = 0; n < pending.size(); ++n) {
      const auto i = pending[n];
      outcomes[i] = std::move(answers[n]);
      if (outcomes[i]) continue;
      const auto& error = outcomes[i].error();
      if (is_removal_of_nothing(op_at(i), error)) {
        outcomes[i] = Status{};
        continue;
      }
      if (auto other = turned(op_at(i), error)) {
        if (written_service(op_at(i))) recovering.insert(service_of(op_at(i)));
        turned_ops.insert_or_assign(i, *other);
        again.push_back(i);
      } else if (error.sys_errno == ESRCH && recovering.contains(service_of(op_at(i)))) {
        // Its service was missing and comes back in the next round.
        again.push_back(i);
      }
    }
    pending = std::move(again);
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (outcomes[i]) continue;
    auto error = outcomes[i].error();
    error.kind = error.kind == ErrorKind::overrun || error.kind == ErrorKind::timeout
                     ? error.kind
                     : kind_of(operation_of(ops[i]), error.sys_errno);
    outcomes[i] = explain(ops[i], std::move(error));
  }
  return outcomes;
}

NlCounters KernelIpvsTable::counters() const {
  auto all = channel_.counters();
  all.datagrams += parts_.counters().datagrams;
  all.dump_requests += parts_.counters().dump_requests;
  return all;
}

// Taken as they come: with all the counters that the kernel adds, the messages of a large table
// take five times its memory. None is marked as interrupted.
Result<std::vector<VirtualService>> KernelIpvsTable::list_services() {
  std::vector<VirtualService> services;
  Status status;
  for (int round = 0; round < kRounds; ++round) {
    services.clear();
    status = channel_.stream(Operation::ipvs_service, encode_list_services(family_),
                             [&](ByteView payload) { return add_service(payload, services); });
    if (status) return services;
    if (status.error().kind != ErrorKind::busy && status.error().kind != ErrorKind::overrun) break;
  }
  return in_context(status.error(), "list virtual services");
}

Result<IpvsTable::ServicesPart> KernelIpvsTable::begin_services() {
  if (const auto begun = parts_.begin_dump(encode_list_services(family_)); !begun)
    return in_context(begun.error(), "list virtual services");
  return next_services();
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
  const auto status = channel_.dump(Operation::ipvs_server, encode_list_servers(family_, service),
                                    [&](ByteView payload) -> Status {
                                      auto server =
                                          decode_server(payload, service.address.family());
                                      if (server)
                                        servers.push_back(*server);
                                      else if (server.error().kind != ErrorKind::unsupported)
                                        return server.error();
                                      return {};
                                    });
  if (!status) return failed(status.error());
  // ip_vs_genl_dump_dests answers an absent service like one without servers.
  if (servers.empty())
    if (const auto known =
            channel_.query(Operation::ipvs_service, encode_get_service(family_, service));
        !known)
      return failed(known.error());
  return servers;
}

Result<IpvsTimeouts> KernelIpvsTable::timeouts() {
  const auto reply = channel_.query(Operation::generic, encode_get_timeouts(family_));
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

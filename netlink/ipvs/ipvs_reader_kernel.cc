#include "netlink/ipvs/ipvs_reader_kernel.h"

#include <fmt/format.h>

#include "netlink/ipvs/ipvs_codec.h"

namespace ipvsproxier::netlink {

namespace {

// Passes a decoded entry on; skips an entry that the types cannot express.
template <typename T>
Status hand_on(const Result<T>& entry, const std::function<Status(const T&)>& each) {
  if (entry) return each(*entry);
  if (entry.error().kind == ErrorKind::unsupported) return {};
  return entry.error();
}

}  // namespace

Result<std::unique_ptr<KernelIpvsReader>> KernelIpvsReader::open(const NlOptions& options) {
  auto services = IpvsChannel::open(options);
  if (!services) return services.error();
  auto servers = IpvsChannel::open(options);
  if (!servers) return servers.error();
  return std::unique_ptr<KernelIpvsReader>(
      new KernelIpvsReader(std::move(*services), std::move(*servers)));
}

Result<IpvsInfo> KernelIpvsReader::info() {
  const auto reply = services_.channel.query(Operation::generic, encode_get_info(services_.family));
  if (!reply) return in_context(reply.error(), "read what IPVS is");
  return decode_info(*reply);
}

Status KernelIpvsReader::services(const std::function<Status(const ServiceReading&)>& each) {
  Status handed_on;
  const auto status = services_.channel.stream(
      Operation::ipvs_service, encode_list_services(services_.family), [&](ByteView payload) {
        handed_on = hand_on(decode_service_reading(payload), each);
        return handed_on;
      });
  if (!handed_on) return handed_on;
  if (!status) return in_context(status.error(), "list virtual services");
  return {};
}

Status KernelIpvsReader::servers(const VirtualServiceKey& service,
                                 const std::function<Status(const ServerReading&)>& each) {
  Status handed_on;
  const auto family = service.address.family();
  const auto status = servers_.channel.stream(
      Operation::ipvs_server, encode_list_servers(servers_.family, service), [&](ByteView payload) {
        handed_on = hand_on(decode_server_reading(payload, family), each);
        return handed_on;
      });
  if (!handed_on) return handed_on;
  if (!status)
    return in_context(status.error(),
                      fmt::format("list real servers of virtual service {}", to_string(service)));
  return {};
}

Result<IpvsTimeouts> KernelIpvsReader::timeouts() {
  const auto reply =
      services_.channel.query(Operation::generic, encode_get_timeouts(services_.family));
  if (!reply) return in_context(reply.error(), "read IPVS timeouts");
  return decode_timeouts(*reply);
}

Result<std::vector<SyncDaemon>> KernelIpvsReader::daemons() {
  std::vector<SyncDaemon> daemons;
  const auto status = services_.channel.dump(
      Operation::generic, encode_list_daemons(services_.family), [&](ByteView payload) -> Status {
        auto daemon = decode_daemon(payload);
        if (!daemon) return daemon.error();
        daemons.push_back(std::move(*daemon));
        return {};
      });
  if (!status) return in_context(status.error(), "list connection sync daemons");
  return daemons;
}

}  // namespace ipvsproxier::netlink

#include "netlink/links/host_reader_kernel.h"

#include <linux/netlink.h>

#include <fmt/format.h>

#include "netlink/links/host_codec.h"
#include "netlink/links/link_codec.h"
#include "netlink/links/link_kernel.h"

namespace ipvsproxier::netlink {

Result<std::unique_ptr<KernelHostReader>> KernelHostReader::open(const NlOptions& options) {
  auto routing = NlChannel::open(NETLINK_ROUTE, options);
  if (!routing) return in_context(routing.error(), "open rtnetlink");
  auto sockets = NlChannel::open(NETLINK_SOCK_DIAG, options);
  if (!sockets) return in_context(sockets.error(), "open sock_diag");
  return std::unique_ptr<KernelHostReader>(
      new KernelHostReader(std::move(*routing), std::move(*sockets)));
}

Result<std::vector<LinkRecord>> KernelHostReader::links() {
  return dump_links(routing_);
}

Result<std::vector<AddressRecord>> KernelHostReader::addresses() {
  return dump_addresses(routing_);
}

Result<Route> KernelHostReader::route(const RouteQuestion& question) {
  const auto answer = routing_.query(Operation::generic, encode_get_route(question));
  if (!answer)
    return in_context(answer.error(),
                      fmt::format("look up the route to {}", question.destination.to_string()));
  return decode_route(*answer);
}

Result<std::vector<Listener>> KernelHostReader::listeners() {
  std::vector<Listener> result;
  for (const auto family : kFamilies)
    for (const auto protocol : {Protocol::tcp, Protocol::udp}) {
      const auto listed = sockets_.dump(Operation::generic, encode_list_listeners(family, protocol),
                                        [&](ByteView payload) -> Status {
                                          const auto listener = decode_listener(payload, protocol);
                                          if (!listener) return listener.error();
                                          result.push_back(*listener);
                                          return {};
                                        });
      if (!listed) return in_context(listed.error(), "list listening sockets");
    }
  return result;
}

}  // namespace ipvsproxier::netlink

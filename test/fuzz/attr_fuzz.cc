// Whatever bytes come from the netlink side, the readers neither leave them nor accept what they
// could not write again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "netlink/conntrack/conntrack_codec.h"
#include "netlink/ipvs/ipvs_codec.h"
#include "netlink/ipvs/ipvs_connections.h"
#include "netlink/links/host_codec.h"
#include "netlink/links/link_codec.h"
#include "netlink/links/link_events.h"
#include "netlink/nl_answers.h"
#include "netlink/nl_codec.h"

namespace ipvsproxier::netlink {
namespace {

constexpr std::uint16_t kFamily = 32;

// struct nfgenmsg; CTA_ID with its header; CTA_TUPLE_REPLY.
constexpr std::ptrdiff_t kFlowHeaderSize = 4;
constexpr std::ptrdiff_t kIdSize = 8;
constexpr std::uint8_t kReplyTuple = 2;

void require(bool condition) {
  if (!condition) std::abort();
}

ByteView payload(const Bytes& message) {
  return ByteView(message).subspan(kMessageHeaderSize);
}

void read_service(ByteView bytes) {
  const auto service = decode_service(bytes);
  if (!service) return;
  const auto again = decode_service(payload(encode_ipvs_op(kFamily, AddService{*service})));
  require(again.has_value());
  // The writer always says "all flags"; a reader that drops one must have dropped it before.
  require(*again == *service);
}

void read_server(ByteView bytes) {
  const auto server = decode_server(bytes, Family::ipv4);
  if (!server) return;
  const auto again =
      decode_server(payload(encode_ipvs_op(kFamily, AddServer{{}, server->server})), Family::ipv6);
  require(again.has_value() && again->server == server->server);
}

// A reading is the entry as it is read without counters, and they stay within the bytes.
void read_readings(ByteView bytes) {
  if (const auto reading = decode_service_reading(bytes)) {
    const auto service = decode_service(bytes);
    require(service.has_value() && *service == reading->service);
    require(!reading->odd_netmask || service->key.address.family() == Family::ipv4);
  }
  if (const auto reading = decode_server_reading(bytes, Family::ipv4)) {
    const auto server = decode_server(bytes, Family::ipv4);
    require(server.has_value() && server->server == reading->listed.server);
  }
  const auto daemon = decode_daemon(bytes);
  require(!daemon || daemon->interface.size() < 16);
  (void)decode_info(bytes);
}

// The kernel's list of connections is text.
void read_connection(ByteView bytes) {
  const std::string_view line(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto connection = parse_connection(line);
  require(connection.has_value() || connection.error().kind == ErrorKind::malformed);
  require(!connection || !connection->state.empty());
}

void read_link(ByteView bytes) {
  const auto link = decode_link(bytes);
  require(!link || link->name.size() < 16);
  const auto address = decode_address(bytes);
  require(!address || address->prefix_length <= address_bits(address->address.family()));
  const auto route = decode_local_route(bytes);
  require(route.has_value() || route.error().kind == ErrorKind::malformed);
}

void read_flow(ByteView bytes) {
  const auto flow = decode_listed(bytes, Protocol::udp);
  require(flow.has_value() || flow.error().kind == ErrorKind::malformed);
  if (!flow || !*flow) return;
  const auto family = (*flow)->source.address.family();
  require((*flow)->destination.address.family() == family);
  require((*flow)->server.address.family() == family);
  // A removal is a listing's flow but for the other direction.
  auto removal = encode_remove_flow(**flow);
  auto message = Bytes(payload(removal).begin(), payload(removal).end());
  Bytes reply(message.begin() + kFlowHeaderSize, message.end() - kIdSize);
  reply[2] = kReplyTuple;
  message.insert(message.end(), reply.begin(), reply.end());
  const auto again = decode_listed(message, Protocol::udp);
  require(again.has_value() && again->has_value());
  require((*again)->source == (*flow)->source && (*again)->destination == (*flow)->destination);
  require((*again)->id == (*flow)->id && (*again)->server == (*flow)->source);
}

// What the kernel is asked about a packet that nobody sends.
void read_host(ByteView bytes) {
  const auto route = decode_route(bytes);
  require(!route || !route->gateway || !route->source ||
          route->gateway->family() == route->source->family());
  const auto listener = decode_listener(bytes, Protocol::tcp);
  require(!listener || !listener->both_families || listener->address.is_any());
  const auto flow = decode_flow(bytes, Protocol::tcp);
  require(flow.has_value() || flow.error().kind == ErrorKind::malformed);
}

void read_events(ByteView bytes) {
  LinkEventReader reader("kube-ipvs", {7});
  LinkEvents events;
  reader.take(bytes, events);
  const auto first = events;
  reader.take(bytes, events);
  // What was seen is never taken back but for an address that came back.
  require(events.link_lost >= first.link_lost && events.others_changed >= first.others_changed);
  require(events.overrun == first.overrun);
}

void read_datagram(ByteView bytes) {
  AnswerWindow window(Operation::generic, {100, 101});
  const auto taken = window.take(bytes);
  require(taken.has_value() || taken.error().kind == ErrorKind::malformed);
  DumpCollector dump(100);
  std::size_t size = 0;
  const auto count = [&](ByteView payload) {
    size += payload.size() + kMessageHeaderSize;
    return Status();
  };
  if (dump.take(Operation::generic, bytes, count)) require(size <= bytes.size());
}

}  // namespace
}  // namespace ipvsproxier::netlink

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ipvsproxier::netlink;
  const ByteView bytes(data, size);
  read_service(bytes);
  read_server(bytes);
  read_readings(bytes);
  read_connection(bytes);
  read_link(bytes);
  read_flow(bytes);
  read_host(bytes);
  read_events(bytes);
  read_datagram(bytes);
  // Nothing to require of these but that they stay within the bytes.
  (void)decode_timeouts(bytes);
  (void)decode_family_id(bytes);
  return 0;
}

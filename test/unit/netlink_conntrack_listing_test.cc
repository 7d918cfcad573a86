#include "netlink/conntrack/conntrack_listing.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include <catch2/catch.hpp>

#include "netlink/conntrack/conntrack_codec.h"

namespace ipvsproxier::netlink {
namespace {

FlowEnd at(std::uint32_t host, std::uint16_t port) {
  return {IpAddress::v4(0x0a000000U + host), port};
}

void put_tuple(MessageWriter& out, std::uint16_t type, Protocol protocol, const FlowEnd& from,
               const FlowEnd& to) {
  const auto tuple = out.nest(type);
  {
    const auto nest = out.nest(CTA_TUPLE_IP);
    out.put_bytes(CTA_IP_V4_SRC, from.address.bytes());
    out.put_bytes(CTA_IP_V4_DST, to.address.bytes());
  }
  const auto nest = out.nest(CTA_TUPLE_PROTO);
  out.put_u8(CTA_PROTO_NUM, static_cast<std::uint8_t>(protocol));
  out.put_be16(CTA_PROTO_SRC_PORT, from.port);
  out.put_be16(CTA_PROTO_DST_PORT, to.port);
}

// A kernel with these flows, which may know the filter or not.
struct FakeKernel {
  struct Flow {
    Protocol protocol = Protocol::udp;
    FlowEnd destination;
  };
  enum class Filter : std::uint8_t { known, ignored, refused };

  Filter filter = Filter::known;
  std::vector<Flow> flows;
  bool has_subsystem = true;
  int interrupted = 0;  // so many times, each behind its messages
  std::vector<Bytes> asked;

  bool shows(const Flow& flow, const Bytes& request) const {
    if (filter == Filter::ignored || request == encode_list_flows(Family::ipv4)) return true;
    if (flow.protocol != Protocol::udp) return false;
    return request == encode_list_flows(Family::ipv4, Protocol::udp, std::nullopt) ||
           request == encode_list_flows(Family::ipv4, Protocol::udp, flow.destination);
  }

  Status operator()(const Bytes& request, const std::function<void()>& begin,
                    const std::function<Status(ByteView)>& each) {
    for (bool again = true; again;) {
      asked.push_back(request);
      const bool is_plain = request == encode_list_flows(Family::ipv4);
      if (!has_subsystem || (filter == Filter::refused && !is_plain))
        return make_error(Operation::generic, EINVAL, "");
      again = interrupted-- > 0;
      begin();
      std::uint16_t number = 0;
      for (const auto& flow : flows) {
        ++number;
        if (!shows(flow, request)) continue;
        if (auto status = each(message(flow, number)); !status) return status;
      }
    }
    return {};
  }

  static Bytes message(const Flow& flow, std::uint16_t number) {
    const nfgenmsg header{AF_INET, NFNETLINK_V0, 0};
    MessageWriter out(IPCTNL_MSG_CT_NEW, 0, bytes_of(header));
    put_tuple(out, CTA_TUPLE_ORIG, flow.protocol, at(1, number), flow.destination);
    put_tuple(out, CTA_TUPLE_REPLY, flow.protocol, at(2, 53), at(1, number));
    out.put_be32(CTA_ID, number);
    const auto bytes = std::move(out).take();
    return {bytes.begin() + kMessageHeaderSize, bytes.end()};
  }
};

FlowQuery to(std::initializer_list<FlowEnd> destinations) {
  FlowQuery query;
  query.destinations = destinations;
  return query;
}

FakeKernel kernel_with(FakeKernel::Filter filter) {
  FakeKernel kernel;
  kernel.filter = filter;
  kernel.flows = {{Protocol::udp, at(10, 53)}, {Protocol::tcp, at(10, 53)},
                  {Protocol::udp, at(11, 53)}, {Protocol::udp, at(12, 53)},
                  {Protocol::udp, at(99, 7)},  {Protocol::udp, at(10, 53)}};
  return kernel;
}

const FlowQuery kThree = to({at(10, 53), at(11, 53), at(12, 54)});

TEST_CASE("a kernel that filters is asked for few destinations one by one, for many at once") {
  auto kernel = kernel_with(FakeKernel::Filter::known);
  FlowListing listing;
  CHECK(listing.list(kThree, std::ref(kernel)).value().size() == 3);
  CHECK(kernel.asked.size() == 3);
  kernel.asked.clear();
  const auto five = to({at(10, 53), at(11, 53), at(12, 53), at(13, 53), at(14, 53)});
  CHECK(listing.list(five, std::ref(kernel)).value().size() == 4);
  CHECK(kernel.asked ==
        std::vector<Bytes>{encode_list_flows(Family::ipv4, Protocol::udp, std::nullopt)});
  kernel.asked.clear();
  CHECK(listing.list({}, std::ref(kernel)).value().size() == 5);
  CHECK(kernel.asked.size() == 1);
}

TEST_CASE("a kernel that ignores the filter is asked for one dump, whatever is looked for") {
  auto kernel = kernel_with(FakeKernel::Filter::ignored);
  FlowListing listing;
  for (int i = 0; i < 2; ++i) {
    CHECK(listing.list(kThree, std::ref(kernel)).value().size() == 3);
    CHECK(kernel.asked.size() == 1);
    kernel.asked.clear();
  }
  SECTION("only TCP shows it") {
    kernel.flows = {{Protocol::tcp, at(10, 53)}};
    FlowListing other;
    CHECK(other.list(kThree, std::ref(kernel)).value().empty());
    CHECK(kernel.asked.size() == 1);
  }
}

TEST_CASE("a kernel that refuses the filter is asked without it from then on") {
  auto kernel = kernel_with(FakeKernel::Filter::refused);
  FlowListing listing;
  CHECK(listing.list(kThree, std::ref(kernel)).value().size() == 3);
  CHECK(kernel.asked.size() == 2);
  kernel.asked.clear();
  CHECK(listing.list(kThree, std::ref(kernel)).value().size() == 3);
  CHECK(kernel.asked == std::vector<Bytes>{encode_list_flows(Family::ipv4)});
}

TEST_CASE("of an interrupted dump nothing is kept, of those before it all") {
  auto kernel = kernel_with(FakeKernel::Filter::known);
  FlowListing listing;
  std::size_t looked_at = 0;
  auto query = kThree;
  query.wanted = [&](const Flow&) { return ++looked_at > 0; };
  kernel.interrupted = 2;
  CHECK(listing.list(query, std::ref(kernel)).value().size() == 3);
  CHECK(looked_at == 7);
}

TEST_CASE("what is not wanted is not kept, nor more than the most") {
  auto kernel = kernel_with(FakeKernel::Filter::known);
  FlowListing listing;
  FlowQuery query;
  query.wanted = [](const Flow& flow) { return flow.destination.port == 7; };
  CHECK(listing.list(query, std::ref(kernel)).value().size() == 1);
  query = {};
  query.most = 2;
  CHECK(listing.list(query, std::ref(kernel)).value().size() == 2);
}

TEST_CASE("a subsystem that is not there is missing, and asked for with a filter when it comes") {
  auto kernel = kernel_with(FakeKernel::Filter::known);
  kernel.has_subsystem = false;
  FlowListing listing;
  const auto none = listing.list(kThree, std::ref(kernel));
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == ErrorKind::missing);
  CHECK(none.error().where.find("modprobe nf_conntrack_netlink") != std::string::npos);
  kernel.has_subsystem = true;
  kernel.asked.clear();
  CHECK(listing.list(kThree, std::ref(kernel)).value().size() == 3);
  CHECK(kernel.asked.size() == 3);
}

}  // namespace
}  // namespace ipvsproxier::netlink

#include "netlink/conntrack/conntrack_kernel.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <stdexcept>
#include <system_error>

#include <catch2/catch.hpp>

#include "netlink/conntrack/conntrack_codec.h"
#include "test/contract/conntrack_contract.h"
#include "test/kernel/netns.h"
#include "test/kernel/privileges.h"
#include "test/support/echo.h"

namespace ipvsproxier::test {
namespace {

using namespace netlink;

std::unique_ptr<KernelConntrackTable> open_conntrack(const NlOptions& options = {}) {
  auto table = KernelConntrackTable::open(options);
  if (!table) FAIL(to_string(table.error()));
  return std::move(*table);
}

// Everybody lives on `lo`; a rule that looks at flows makes the kernel track them.
void prepare_host(const FreshNetns& netns) {
  std::string lines;
  for (const std::string ip : kTrackedAddresses)
    lines +=
        "addr add " + ip + (ip.find(':') == std::string::npos ? "/32" : "/128 nodad") + " dev lo\n";
  netns.netns().ip(lines);
  shell("for tool in iptables ip6tables; do $tool -A OUTPUT -m conntrack --ctstate NEW; done");
}

std::pair<sockaddr_storage, socklen_t> socket_address(const FlowEnd& end) {
  sockaddr_storage storage{};
  if (end.address.family() == Family::ipv4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(end.port);
    std::memcpy(&v4.sin_addr, end.address.bytes().data(), 4);
    std::memcpy(&storage, &v4, sizeof v4);
    return {storage, sizeof v4};
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(end.port);
  std::memcpy(&v6.sin6_addr, end.address.bytes().data(), 16);
  std::memcpy(&storage, &v6, sizeof v6);
  return {storage, sizeof v6};
}

// One datagram, whoever gets it.
void send_from(const FlowEnd& source, const FlowEnd& destination) {
  const auto [from, from_size] = socket_address(source);
  const auto [to, to_size] = socket_address(destination);
  const UniqueFd socket(::socket(from.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), from_size) != 0 ||
      ::sendto(socket.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), to_size) != 1)
    throw std::system_error(errno, std::generic_category(), "send a datagram");
}

TEST_CASE("kernel: UDP flows keep the contract") {
  FreshNetns netns;
  const auto table = open_conntrack();
  prepare_host(netns);
  for (const auto family : kFamilies) {
    conntrack_listing_contract(*table, send_from, family);
    conntrack_removal_contract(*table, send_from, family);
  }
}

// A client and two pods on `lo`, a virtual service and a node port in front of them.
struct Shop {
  Shop(const FreshNetns& netns, bool v4) : family(v4 ? Family::ipv4 : Family::ipv6) {
    prepare_host(netns);
    shell("sysctl -qw net.ipv4.vs.conntrack=1");
    ip = [v4](const std::string& four, const std::string& six) { return v4 ? four : six; };
    client = ip("10.0.0.1", "fd00::1");
    service = ip("10.96.0.10", "fd00::a");
    node = ip("10.96.0.11", "fd00::b");
    const auto length = ip("/32", "/128 nodad");
    netns.netns().ip("addr add " + pod_a() + length + " dev lo\naddr add " + pod_b() + length +
                     " dev lo\n");
    for (const auto& pod : {pod_a(), pod_b()}) {
      auto server =
          EchoServer::start(pod, flow_end(pod, 1).address, 5353, {Protocol::udp, Protocol::tcp});
      REQUIRE(server);
      pods.push_back(std::move(*server));
    }
    std::string rules;
    for (const auto& place :
         {text(service) + ":53", text(service) + ":54", text(node) + ":53", text(node) + ":30053"})
      for (const std::string protocol : {"-u ", "-t "}) {
        rules += "-A " + protocol + place + " -s rr\n";
        for (const auto& pod : {pod_a(), pod_b()})
          rules += "-a " + protocol + place + " -r " + text(pod) + ":5353 -m\n";
      }
    shell("ipvsadm -R <<'END'\n" + rules + "END\n");
  }

  std::string pod_a() const { return ip("10.1.0.1", "fd01::1"); }
  std::string pod_b() const { return ip("10.1.0.2", "fd01::2"); }
  std::string text(const std::string& address) const {
    return family == Family::ipv4 ? address : "[" + address + "]";
  }

  // The name of the pod that answers.
  std::string ask_from(std::uint16_t port, const std::string& to, std::uint16_t to_port,
                       Protocol protocol = Protocol::udp) const {
    const auto answer = ask(protocol, flow_end(to, 1).address, to_port,
                            {.source = flow_end(client, 1).address, .source_port = port});
    return answer ? answer->server : to_string(answer.error());
  }

  Family family;
  std::function<std::string(const std::string&, const std::string&)> ip;
  std::string client, service, node;
  std::vector<std::unique_ptr<EchoServer>> pods;
};

std::string tracked(const std::string& family, const std::string& what) {
  return shell("conntrack -L -f " + family + " " + what + " 2>/dev/null | wc -l");
}

TEST_CASE("kernel: of the flows through virtual services exactly the named ones are removed") {
  const bool v4 = GENERATE(true, false);
  FreshNetns netns;
  const Shop shop(netns, v4);
  const auto table = open_conntrack();
  // Two flows to the service and two to the node's port; decoys: each one's port at the other's
  // address, the pod itself, TCP. Flows of one source port to one pod would have the same replies.
  const auto first = shop.ask_from(4000, shop.service, 53);
  const auto second = shop.ask_from(4001, shop.service, 53);
  CHECK(std::set{first, second} == std::set{shop.pod_a(), shop.pod_b()});
  const std::set pods = {shop.pod_a(), shop.pod_b()};
  CHECK(pods.contains(shop.ask_from(4002, shop.service, 54)));
  CHECK(pods.contains(shop.ask_from(4003, shop.node, 53)));
  CHECK(pods.contains(shop.ask_from(4004, shop.node, 30053)));
  CHECK(pods.contains(shop.ask_from(4005, shop.node, 30053)));
  CHECK(shop.ask_from(4006, shop.pod_a(), 5353) == shop.pod_a());
  CHECK(pods.contains(shop.ask_from(4000, shop.service, 53, Protocol::tcp)));

  const auto service = flow_end(shop.service, 53);
  const auto flows = flows_of(*table, shop.family, service);
  REQUIRE(flows.size() == 2);
  CHECK(flows[0].source == flow_end(shop.client, 4000));
  CHECK(flows[0].server == flow_end(first, 5353));
  CHECK(flows[1].server == flow_end(second, 5353));
  const auto at_node = flows_of(*table, shop.family, flow_end(shop.node, 30053));
  REQUIRE(at_node.size() == 2);
  const auto all = flows_of(*table, shop.family);
  CHECK(all.size() == 7);

  must_remove(*table, {flows[1], at_node[0]});
  auto left = all;
  std::erase(left, flows[1]);
  std::erase(left, at_node[0]);
  CHECK(flows_of(*table, shop.family) == left);
  const std::string family = v4 ? "ipv4" : "ipv6";
  CHECK(tracked(family, "-p udp") == "5\n");
  CHECK(tracked(family, "-p tcp") == "1\n");
  // The virtual service works on, with a new flow.
  CHECK(pods.contains(shop.ask_from(4001, shop.service, 53)));
  CHECK(flows_of(*table, shop.family, service).size() == 2);
}

TEST_CASE("kernel: a stale id leaves the successor of a flow alone") {
  FreshNetns netns;
  prepare_host(netns);
  const auto table = open_conntrack();
  const auto client = flow_end("10.0.0.1", 4000);
  const auto dns = flow_end("10.96.0.10", 53);
  send_from(client, dns);
  const auto before = flows_of(*table, Family::ipv4, dns);
  REQUIRE(before.size() == 1);
  must_remove(*table, before);
  // Other flows take the place in memory that the first one had; see conntrack_kernel.h.
  for (std::uint16_t port = 5000; port < 5100; ++port) send_from(flow_end("10.0.0.1", port), dns);
  send_from(client, dns);
  must_remove(*table, before);
  const auto after = flows_of(*table, Family::ipv4, dns);
  REQUIRE(after.size() == 101);
  CHECK(after[0].source == client);
  CHECK(after[0].id != before[0].id);
}

TEST_CASE("kernel: flows of another zone are neither listed nor removed") {
  FreshNetns netns;
  prepare_host(netns);
  const auto table = open_conntrack();
  try {
    shell("iptables -t raw -A OUTPUT -p udp --sport 4007 -j CT --zone 7 2>&1");
  } catch (const std::runtime_error&) {
    WARN("this kernel has no zones (CONFIG_NF_CONNTRACK_ZONES)");
    return;
  }
  const auto dns = flow_end("10.96.0.10", 53);
  send_from(flow_end("10.0.0.1", 4000), dns);
  send_from(flow_end("10.0.0.1", 4007), dns);
  const auto flows = flows_of(*table, Family::ipv4, dns);
  CHECK(ends_of(flows) == std::vector<std::string>{"10.0.0.1:4000 10.96.0.10:53"});
  auto elsewhere = flows;
  elsewhere[0].source.port = 4007;
  must_remove(*table, elsewhere);
  CHECK(tracked("ipv4", "-p udp -w 7") == "1\n");
}

TEST_CASE("kernel: five thousand flows are listed in one dump, and removed 256 in a datagram") {
  const bool v4 = GENERATE(true, false);
  FreshNetns netns;
  prepare_host(netns);
  const auto table = open_conntrack();
  const std::string client = v4 ? "10.0.0.1" : "fd00::1";
  const auto family = v4 ? Family::ipv4 : Family::ipv6;
  const auto dns = flow_end(v4 ? "10.96.0.10" : "fd00::a", 53);
  const auto decoy = flow_end(v4 ? "10.96.0.11" : "fd00::b", 53);
  for (std::uint16_t port = 10'000; port < 15'000; ++port) {
    send_from(flow_end(client, port), dns);
    if (port % 10 == 0) send_from(flow_end(client, port), decoy);
  }
  const auto before = table->counters();
  const auto flows = flows_of(*table, family, dns);
  CHECK(flows.size() == 5000);
  CHECK(table->counters().dump_requests - before.dump_requests == 1);
  CHECK(table->counters().datagrams - before.datagrams == 1);
  CHECK(flows_of(*table, family).size() == 5500);
  const auto datagrams = table->counters().datagrams;
  must_remove(*table, flows);
  CHECK(table->counters().write_requests == 5000);
  CHECK(table->counters().datagrams - datagrams == 20);
  CHECK(flows_of(*table, family, dns).empty());
  CHECK(flows_of(*table, family, decoy).size() == 500);
}

// What a kernel without the filter is asked; the wrong answers are ours to leave out.
TEST_CASE("kernel: in a listing of all flows the UDP ones are told from the others") {
  const bool v4 = GENERATE(true, false);
  FreshNetns netns;
  const Shop shop(netns, v4);
  const auto table = open_conntrack();
  CHECK(shop.ask_from(4000, shop.service, 53) != "");
  CHECK(shop.ask_from(4001, shop.node, 30053) != "");
  CHECK(shop.ask_from(4000, shop.service, 53, Protocol::tcp) != "");
  shell("ping -c 1 -W 1 " + shop.service);
  auto channel = NlChannel::open(NETLINK_NETFILTER);
  REQUIRE(channel);
  std::size_t others = 0;
  std::vector<Flow> flows;
  const auto status = channel->dump(Operation::generic, encode_list_flows(shop.family),
                                    [&](ByteView payload) -> Status {
                                      const auto flow = decode_listed(payload, Protocol::udp);
                                      if (!flow) return flow.error();
                                      if (*flow)
                                        flows.push_back(**flow);
                                      else
                                        ++others;
                                      return {};
                                    });
  if (!status) FAIL(to_string(status.error()));
  std::ranges::sort(flows);
  CHECK(flows.size() == 2);
  CHECK(flows == flows_of(*table, shop.family));
  CHECK(others >= 2);  // TCP, ICMP
}

Bytes flow_that_others_track(std::uint32_t number) {
  const auto source = FlowEnd{IpAddress::v4(0x0b000000U + number), 4000};
  const auto destination = flow_end("10.99.0.1", 9);
  const nfgenmsg header{AF_INET, NFNETLINK_V0, 0};
  constexpr auto kType =
      static_cast<std::uint16_t>((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_NEW);
  MessageWriter out(kType, NLM_F_CREATE, bytes_of(header));
  const auto put = [&out](std::uint16_t type, const FlowEnd& from, const FlowEnd& to) {
    const auto tuple = out.nest(type);
    {
      const auto nest = out.nest(CTA_TUPLE_IP);
      out.put_bytes(CTA_IP_V4_SRC, from.address.bytes());
      out.put_bytes(CTA_IP_V4_DST, to.address.bytes());
    }
    const auto nest = out.nest(CTA_TUPLE_PROTO);
    out.put_u8(CTA_PROTO_NUM, IPPROTO_UDP);
    out.put_be16(CTA_PROTO_SRC_PORT, from.port);
    out.put_be16(CTA_PROTO_DST_PORT, to.port);
  };
  put(CTA_TUPLE_ORIG, source, destination);
  put(CTA_TUPLE_REPLY, destination, source);
  out.put_be32(CTA_TIMEOUT, 600);
  return std::move(out).take();
}

// Of this process, so far, in KiB.
std::size_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      std::size_t kib = 0;
      status >> kib;
      return kib;
    }
  throw std::runtime_error("no VmHWM");
}

TEST_CASE("kernel: many flows of others are passed over, none is held in memory") {
  constexpr std::uint32_t kFlows = 60'000;  // below nf_conntrack_max
  FreshNetns netns;
  prepare_host(netns);
  const auto table = open_conntrack();
  const auto dns = flow_end("10.96.0.10", 53);
  send_from(flow_end("10.0.0.1", 4000), dns);
  auto channel = NlChannel::open(NETLINK_NETFILTER);
  REQUIRE(channel);
  for (std::uint32_t first = 0; first < kFlows; first += 1000) {
    std::vector<Bytes> requests;
    for (std::uint32_t i = 0; i < 1000; ++i) requests.push_back(flow_that_others_track(first + i));
    for (const auto& outcome : channel->transact(Operation::generic, requests))
      if (!outcome) FAIL(to_string(outcome.error()));
  }
  FlowQuery query;
  query.destinations.insert(dns);
  for (std::uint16_t port = 54; port < 64; ++port)  // too many to be asked for one by one
    query.destinations.insert(flow_end("10.96.0.11", port));
  const auto before = peak_memory();
  const auto flows = table->list(query);
  REQUIRE(flows);
  CHECK(flows->size() == 1);
  CHECK(peak_memory() - before < 2048);
  std::size_t seen = 0;
  query = {.wanted = [&](const Flow&) { return ++seen == 0; }};
  REQUIRE(table->list(query));
  CHECK(seen == kFlows + 1);
  // In parts, each of which is short beside the whole.
  CHECK(table->count().value() >= kFlows + 1);
  using Clock = std::chrono::steady_clock;
  Clock::duration longest{};
  const auto begin = Clock::now();
  auto last = begin;
  seen = 0;
  for (auto part = table->begin_list(Family::ipv4, {Protocol::udp});; part = table->next_list()) {
    REQUIRE(part);
    seen += part->flows.size();
    longest = std::max(longest, Clock::now() - last);
    last = Clock::now();
    if (part->last) break;
  }
  CHECK(seen >= kFlows + 1);
  CHECK(longest * 4 < last - begin);
}

TEST_CASE("kernel: flows are listed again once the module is back") {
  FreshNetns netns;
  prepare_host(netns);
  const auto table = open_conntrack();
  const auto dns = flow_end("10.96.0.10", 53);
  send_from(flow_end("10.0.0.1", 4000), dns);
  const auto gone = shell(
      "grep -q 'User Mode Linux' /proc/cpuinfo && echo /bin/false >/proc/sys/kernel/modprobe && "
      "rmmod nf_conntrack_netlink 2>&1 && echo gone || echo kept");
  const auto listed = table->list({});
  const auto opened = KernelConntrackTable::open();
  if (gone.find("gone") == std::string::npos) {
    WARN("nf_conntrack_netlink cannot be removed from this kernel");
    return;
  }
  shell("echo /sbin/modprobe >/proc/sys/kernel/modprobe");
  for (const auto& error : {listed.error(), opened.error()}) {
    CHECK(error.kind == ErrorKind::missing);
    CHECK(error.where.find("modprobe nf_conntrack_netlink") != std::string::npos);
  }
  CHECK(flows_of(*table, Family::ipv4, dns).size() == 1);
  CHECK(KernelConntrackTable::open());
}

TEST_CASE("kernel: without the privilege flows are denied") {
  FreshNetns netns;
  prepare_host(netns);
  const auto table = open_conntrack();
  const auto dns = flow_end("10.96.0.10", 53);
  send_from(flow_end("10.0.0.1", 4000), dns);
  const auto flows = flows_of(*table, Family::ipv4, dns);
  REQUIRE(flows.size() == 1);
  {
    const WithoutNetAdmin unprivileged;
    const auto outcomes = table->remove(flows);
    REQUIRE_FALSE(outcomes.at(0));
    CHECK(outcomes[0].error().kind == ErrorKind::denied);
    CHECK(to_string(outcomes[0].error())
              .find("remove UDP flow 10.0.0.1:4000 -> 10.96.0.10:53: needs CAP_NET_ADMIN") == 0);
    const auto listed = table->list({.family = Family::ipv4});
    REQUIRE_FALSE(listed);
    CHECK(to_string(listed.error()).find("list UDP flows: needs CAP_NET_ADMIN") == 0);
  }
  CHECK(flows_of(*table, Family::ipv4, dns) == flows);
}

// Run by itself in a guest that can load nothing.
TEST_CASE("without modules: tracked flows are missing, and the module is named", "[.no-modules]") {
  FreshNetns netns;
  const auto table = KernelConntrackTable::open();
  REQUIRE_FALSE(table);
  CHECK(table.error().kind == ErrorKind::missing);
  CHECK(table.error().where.find("modprobe nf_conntrack_netlink") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::test

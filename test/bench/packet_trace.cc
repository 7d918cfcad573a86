#include "test/bench/packet_trace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "netlink/nl_codec.h"
#include "test/support/require.h"

namespace ipvsproxier::bench {
namespace {

using netlink::AttrKind;
using netlink::AttrReader;
using netlink::AttrRule;
using netlink::ByteView;
using netlink::UniqueFd;

constexpr int kTraceBuffer = 8 << 20;

[[noreturn]] void fail_trace(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

UniqueFd trace_messages() {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER));
  if (!socket) fail_trace("netlink socket");
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kTraceBuffer, sizeof kTraceBuffer) <
      0)
    fail_trace("SO_RCVBUFFORCE");
  // Without a port of its own it gets no message of the kernel, whose port is 0 as well.
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    fail_trace("bind a netlink socket");
  const int group = NFNLGRP_NFTRACE;
  if (::setsockopt(socket.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) < 0)
    fail_trace("join NFNLGRP_NFTRACE");
  return socket;
}

UniqueFd kernel_log() {
  UniqueFd log(::open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!log) fail_trace("/dev/kmsg");
  if (::lseek(log.get(), 0, SEEK_END) < 0) fail_trace("the end of /dev/kmsg");
  return log;
}

constexpr std::array<AttrRule, 10> kTraceRules = {{
    {NFTA_TRACE_TABLE, AttrKind::string, 0, NFT_NAME_MAXLEN},
    {NFTA_TRACE_CHAIN, AttrKind::string, 0, NFT_NAME_MAXLEN},
    {NFTA_TRACE_RULE_HANDLE, AttrKind::u64, 0, 0},
    {NFTA_TRACE_TYPE, AttrKind::u32, 0, 0},
    {NFTA_TRACE_VERDICT, AttrKind::nested, 0, 0},
    {NFTA_TRACE_NETWORK_HEADER, AttrKind::bytes, sizeof(iphdr), 256},
    {NFTA_TRACE_TRANSPORT_HEADER, AttrKind::bytes, sizeof(tcphdr), 256},
    {NFTA_TRACE_IIF, AttrKind::u32, 0, 0},
    {NFTA_TRACE_OIF, AttrKind::u32, 0, 0},
    {NFTA_TRACE_MARK, AttrKind::u32, 0, 0},
}};

constexpr std::array<AttrRule, 2> kVerdictRules = {{
    {NFTA_VERDICT_CODE, AttrKind::u32, 0, 0},
    {NFTA_VERDICT_CHAIN, AttrKind::string, 0, NFT_NAME_MAXLEN},
}};

std::string verdict_text(ByteView bytes) {
  const auto verdict = test::require(AttrReader::parse(bytes, kVerdictRules));
  switch (static_cast<std::int32_t>(verdict.be32(NFTA_VERDICT_CODE).value_or(0))) {
    case NFT_CONTINUE:
      return "continue";
    case NFT_RETURN:
      return "return";
    case NFT_JUMP:
      return fmt::format("jump {}", verdict.string(NFTA_VERDICT_CHAIN).value_or(""));
    case NFT_GOTO:
      return fmt::format("goto {}", verdict.string(NFTA_VERDICT_CHAIN).value_or(""));
    case NF_ACCEPT:
      return "accept";
    default:
      return "drop";
  }
}

std::string interface_name(std::optional<std::uint32_t> index) {
  std::array<char, IF_NAMESIZE> name{};
  return index && ::if_indextoname(*index, name.data()) != nullptr ? name.data() : "";
}

// As nf_log writes it for legacy iptables.
std::string packet_text(const AttrReader& event, ByteView network, ByteView transport) {
  iphdr ip{};
  tcphdr tcp{};
  std::memcpy(&ip, network.data(), sizeof ip);
  std::memcpy(&tcp, transport.data(), sizeof tcp);
  std::array<char, INET_ADDRSTRLEN> source{};
  std::array<char, INET_ADDRSTRLEN> destination{};
  ::inet_ntop(AF_INET, &ip.saddr, source.data(), source.size());
  ::inet_ntop(AF_INET, &ip.daddr, destination.data(), destination.size());
  std::string text = fmt::format(
      " IN={} OUT={} SRC={} DST={} PROTO=TCP SPT={} DPT={} SEQ={}",
      interface_name(event.be32(NFTA_TRACE_IIF)), interface_name(event.be32(NFTA_TRACE_OIF)),
      source.data(), destination.data(), ntohs(tcp.source), ntohs(tcp.dest), ntohl(tcp.seq));
  if (tcp.syn != 0) text += " SYN";
  if (tcp.ack != 0) text += " ACK";
  if (tcp.fin != 0) text += " FIN";
  if (tcp.rst != 0) text += " RST";
  return text;
}

std::string event_text(ByteView attributes) {
  const auto event = test::require(AttrReader::parse(attributes, kTraceRules));
  const auto verdict = event.nested(NFTA_TRACE_VERDICT);
  const auto type = event.be32(NFTA_TRACE_TYPE).value_or(0);
  const char* kind = type == NFT_TRACETYPE_POLICY   ? "policy"
                     : type == NFT_TRACETYPE_RETURN ? "return"
                                                    : "rule";
  std::string text = fmt::format(
      "TRACE: {}:{}:{}:{}:{}", event.string(NFTA_TRACE_TABLE).value_or(""),
      event.string(NFTA_TRACE_CHAIN).value_or(""), kind,
      event.be64(NFTA_TRACE_RULE_HANDLE).value_or(0), verdict ? verdict_text(*verdict) : "");
  const auto network = event.bytes(NFTA_TRACE_NETWORK_HEADER);
  const auto transport = event.bytes(NFTA_TRACE_TRANSPORT_HEADER);
  if (network && transport) text += packet_text(event, *network, *transport);
  if (const auto mark = event.be32(NFTA_TRACE_MARK)) text += fmt::format(" MARK={:#x}", *mark);
  return text;
}

}  // namespace

PacketTrace::PacketTrace(const test::Netns& netns, TracedFilter filter)
    : netns_(netns), filter_(filter) {
  netns.inside([&] {
    if (filter == TracedFilter::nftables) {
      source_ = trace_messages();
      test::shell(
          "nft 'table ip traffic_trace { chain begin { type filter hook prerouting priority -400; "
          "meta l4proto tcp meta nftrace set 1; }; }'");
      return;
    }
    test::shell(
        "modprobe nf_log_syslog && echo nf_log_ipv4 > /proc/sys/net/netfilter/nf_log/2 && "
        "iptables -w -t raw -A PREROUTING -p tcp -j TRACE");
    source_ = kernel_log();
  });
  // Else only the first network namespace may write into the log.
  if (filter == TracedFilter::iptables)
    test::shell("echo 1 > /proc/sys/net/netfilter/nf_log_all_netns");
}

PacketTrace::~PacketTrace() {
  try {
    netns_.inside([&] {
      test::shell(filter_ == TracedFilter::nftables
                      ? "nft delete table ip traffic_trace"
                      : "iptables -w -t raw -D PREROUTING -p tcp -j TRACE");
    });
  } catch (const std::exception&) {
    // The namespace goes with the measurement.
  }
}

std::vector<std::string> PacketTrace::take() {
  return filter_ == TracedFilter::nftables ? take_messages() : take_lines();
}

std::vector<std::string> PacketTrace::take_messages() {
  return netns_.inside([&] {
    std::vector<std::string> events;
    std::vector<std::uint8_t> datagram(1 << 16);
    for (;;) {
      const ssize_t size = ::recv(source_.get(), datagram.data(), datagram.size(), MSG_TRUNC);
      if (size < 0 && errno == EAGAIN) return events;
      // ENOBUFS: the kernel dropped events.
      if (size < 0) fail_trace("receive trace events");
      const auto received = static_cast<std::size_t>(size);
      if (received > datagram.size()) throw std::runtime_error("a trace event of 64 KiB");
      constexpr std::size_t kHeaders = sizeof(nlmsghdr) + sizeof(nfgenmsg);
      for (std::size_t at = 0; at + kHeaders <= received;) {
        nlmsghdr header{};
        std::memcpy(&header, datagram.data() + at, sizeof header);
        if (header.nlmsg_len < kHeaders || at + header.nlmsg_len > received)
          throw std::runtime_error("a torn trace event");
        events.push_back(
            event_text({datagram.data() + at + kHeaders, header.nlmsg_len - kHeaders}));
        at += netlink::netlink_align(header.nlmsg_len);
      }
    }
  });
}

// A record is "PRIORITY,NUMBER,TIME,FLAGS;TEXT\n" (Documentation/ABI/testing/dev-kmsg).
std::vector<std::string> PacketTrace::take_lines() {
  std::vector<std::string> events;
  std::array<char, 8192> record{};
  for (;;) {
    const ssize_t size = ::read(source_.get(), record.data(), record.size());
    if (size < 0 && errno == EAGAIN) return events;
    // EPIPE: records were overwritten before they were read.
    if (size < 0) fail_trace("read the kernel's log");
    std::string_view text(record.data(), static_cast<std::size_t>(size));
    text = text.substr(0, text.find('\n'));
    const auto begin = text.find(";TRACE: ");
    if (begin != std::string_view::npos) events.emplace_back(text.substr(begin + 1));
  }
}

}  // namespace ipvsproxier::bench

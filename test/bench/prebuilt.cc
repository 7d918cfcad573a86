#include "test/bench/prebuilt.h"

#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

// After <netinet/in.h>, which they would redefine.
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_source_ranges.h"
#include "ipset/sets/set_catalog.h"
#include "netlink/ipvs/ipvs_codec.h"
#include "netlink/links/link_codec.h"
#include "netlink/nftables/nftables_codec.h"
#include "netlink/nl_channel.h"
#include "proxier/plan/node_info.h"

namespace ipvsproxier::bench {
namespace {

using netlink::Bytes;
using netlink::MessageWriter;

constexpr std::array kProtocols = {NETLINK_GENERIC, NETLINK_ROUTE, NETLINK_NETFILTER};
constexpr int kIpvs = 0;
constexpr int kRoute = 1;
constexpr int kSets = 2;

constexpr std::size_t kDatagramBytes = 48 * 1024;
constexpr std::size_t kTransactionBytes = 4 << 20;
constexpr std::size_t kElementsBytes = 32 * 1024;  // of one message

int open_socket(int protocol) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) throw std::runtime_error("cannot open a netlink socket");
  const int buffer = 4 << 20;
  const int send_buffer = 4 * static_cast<int>(kTransactionBytes);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_buffer, sizeof send_buffer);
  ::setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
  return fd;
}

void edit_header(Bytes& bytes, std::size_t offset, std::uint32_t sequence, bool answered) {
  nlmsghdr header;
  std::memcpy(&header, bytes.data() + offset, sizeof header);
  header.nlmsg_seq = sequence;
  if (answered) header.nlmsg_flags = static_cast<std::uint16_t>(header.nlmsg_flags | NLM_F_ACK);
  std::memcpy(bytes.data() + offset, &header, sizeof header);
}

// One DATA of an element.
struct ElementWriter {
  MessageWriter& writer;

  void port(std::uint16_t value) const {
    writer.put_be16(IPSET_ATTR_PORT | NLA_F_NET_BYTEORDER, value);
  }
  void address(std::uint16_t type, const netlink::IpAddress& value) const {
    const auto nest = writer.nest(type);
    writer.put_bytes((value.family() == netlink::Family::ipv4 ? IPSET_ATTR_IPADDR_IPV4
                                                              : IPSET_ATTR_IPADDR_IPV6) |
                         NLA_F_NET_BYTEORDER,
                     value.bytes());
  }
  template <typename Element>
  void endpoint(const Element& element) const {
    address(IPSET_ATTR_IP, element.ip);
    port(element.port);
    writer.put_u8(IPSET_ATTR_PROTO, static_cast<std::uint8_t>(element.protocol));
  }
  void operator()(const ipset::IpElement& element) const { address(IPSET_ATTR_IP, element.ip); }
  void operator()(const ipset::PortElement& element) const { port(element.port); }
  void operator()(const ipset::ServiceElement& element) const { endpoint(element); }
  void operator()(const ipset::DestinationElement& element) const { endpoint(element); }
  void operator()(const ipset::RangesElement& element) const { endpoint(element); }
  void operator()(const ipset::IpPortElement& element) const { endpoint(element); }
  void operator()(const ipset::IpPortIpElement& element) const {
    endpoint(element);
    address(IPSET_ATTR_IP2, element.ip2);
  }
  void operator()(const ipset::IpPortNetElement& element) const {
    endpoint(element);
    address(IPSET_ATTR_IP2, element.net.address);
    writer.put_u8(IPSET_ATTR_CIDR2, element.net.length);
  }
};

// As many of `ops` from `next` on as fit one message; all are additions.
Bytes elements_message(const std::string& set, const std::vector<ipset::ElementOp>& ops,
                       std::size_t& next) {
  const nfgenmsg family{AF_INET, NFNETLINK_V0, 0};
  MessageWriter writer((NFNL_SUBSYS_IPSET << 8) | IPSET_CMD_ADD, 0, netlink::bytes_of(family));
  writer.put_u8(IPSET_ATTR_PROTOCOL, IPSET_PROTOCOL_MIN);
  writer.put_string(IPSET_ATTR_SETNAME, set);
  writer.put_u32(IPSET_ATTR_LINENO, 0);
  {
    const auto all = writer.nest(IPSET_ATTR_ADT);
    constexpr std::size_t kMost = kElementsBytes / 64;
    for (std::size_t count = 0; next < ops.size() && count < kMost; ++next, ++count) {
      const auto one = writer.nest(IPSET_ATTR_DATA);
      std::visit(ElementWriter{writer}, ops[next].element);
    }
  }
  return std::move(writer).take();
}

}  // namespace

Prebuilt::Prebuilt(const plan::Transaction& transaction) {
  for (const int protocol : kProtocols) sockets_.push_back(open_socket(protocol));
  auto channel = netlink::NlChannel::open(NETLINK_GENERIC);
  const auto family = channel ? netlink::resolve_family(*channel, netlink::kIpvsFamilyName)
                              : netlink::Result<std::uint16_t>(channel.error());
  if (!family) throw std::runtime_error(netlink::to_string(family.error()));
  ipvs_family_ = *family;
  for (const auto& phase : transaction.phases)
    std::visit([this](const auto& work) { put(work); }, phase.work);
  close_datagram();
}

Prebuilt::~Prebuilt() {
  for (const int fd : sockets_) ::close(fd);
}

void Prebuilt::put(int socket, Bytes message) {
  message.resize(netlink::netlink_align(message.size()));
  if (open_ && (datagrams_.back().socket != socket ||
                datagrams_.back().bytes.size() + message.size() > kDatagramBytes))
    close_datagram();
  if (!open_) datagrams_.push_back({.socket = socket});
  open_ = true;
  append(std::move(message));
}

void Prebuilt::append(Bytes message) {
  message.resize(netlink::netlink_align(message.size()));
  auto& datagram = datagrams_.back();
  last_message_ = datagram.bytes.size();
  datagram.bytes.insert(datagram.bytes.end(), message.begin(), message.end());
  edit_header(datagram.bytes, last_message_, ++sequence_, false);
  datagram.last_sequence = sequence_;
  ++messages_;
}

void Prebuilt::close_datagram() {
  if (open_)
    edit_header(datagrams_.back().bytes, last_message_, datagrams_.back().last_sequence, true);
  open_ = false;
}

// The last message is answered once the kernel has kept all.
void Prebuilt::put_transaction(const std::vector<Bytes>& messages) {
  if (messages.empty()) return;
  close_datagram();
  datagrams_.push_back({.socket = kSets});
  append(netlink::encode_nft_begin());
  for (const auto& message : messages) append(message);
  const auto last = last_message_;
  const auto answered = sequence_;
  append(netlink::encode_nft_end());
  messages_ -= 2;
  edit_header(datagrams_.back().bytes, last, answered, true);
  datagrams_.back().last_sequence = answered;
}

// All elements of one set are one operation, and transactions as large as the socket holds.
void Prebuilt::put_nft(const std::vector<plan::SetChange>& changes) {
  std::vector<Bytes> messages;
  std::size_t bytes = 0;
  std::uint32_t set_id = 0;
  const auto add = [&](const netlink::NftOp& op) {
    const auto first = messages.size();
    netlink::append_nft_op(op, ++set_id, messages);
    for (auto i = first; i < messages.size(); ++i) bytes += messages[i].size();
    if (bytes < kTransactionBytes) return;
    put_transaction(std::exchange(messages, {}));
    bytes = 0;
  };
  for (const auto& change : changes) {
    const auto spec = ipset::set_spec(change.set.id, change.set.family);
    const auto table = ipset::nft_table_of(change.set.family);
    netlink::NftAddElements all{
        .table = table, .set = ipset::nft_set_of(spec).name, .elements = {}};
    for (const auto& op : change.ops) {
      netlink::NftUnit chain;
      if (const auto own = ipset::own_chain_of(op.element)) ipset::append_chain(*own, chain);
      for (const auto& of_chain : chain.ops) add(of_chain);
      if (const auto* ranges = std::get_if<ipset::RangesElement>(&op.element))
        for (const auto& of_ranges : ipset::NftSourceRanges::change(nullptr, *ranges).ops)
          add(of_ranges);
      else
        all.elements.push_back(ipset::nft_element_of(spec, op.element).value());
    }
    if (!all.elements.empty()) add(all);
  }
  put_transaction(messages);
}

void Prebuilt::put(const std::vector<ipset::SetSpec>&) {}
void Prebuilt::put(const std::vector<ipset::TableRules>&) {}

void Prebuilt::put(const std::vector<plan::SetChange>& changes) {
  if (!changes.empty() &&
      std::ranges::find(ipset::kNftSetIds, changes.front().set.id) != ipset::kNftSetIds.end())
    return put_nft(changes);
  for (const auto& change : changes)
    for (std::size_t next = 0; next < change.ops.size();)
      put(kSets,
          elements_message(ipset::set_name(change.set.id, change.set.family), change.ops, next));
}

void Prebuilt::put(const std::vector<netlink::IpvsOp>& ops) {
  for (const auto& op : ops) put(kIpvs, netlink::encode_ipvs_op(ipvs_family_, op));
}

void Prebuilt::put(const std::vector<plan::BindingOp>& ops) {
  for (const auto& op : ops) {
    const auto index = ::if_nametoindex(plan::dummy_link(op.binding.place).c_str());
    put(kRoute,
        netlink::encode_address_op(static_cast<std::int32_t>(index), {op.add, op.binding.address}));
  }
}

void Prebuilt::send() {
  std::array<std::uint8_t, 64 * 1024> buffer;
  for (const auto& datagram : datagrams_) {
    const int fd = sockets_[static_cast<std::size_t>(datagram.socket)];
    if (::send(fd, datagram.bytes.data(), datagram.bytes.size(), 0) < 0)
      throw std::runtime_error("cannot send a prebuilt datagram");
    for (bool answered = false; !answered;) {
      const auto size = ::recv(fd, buffer.data(), buffer.size(), 0);
      if (size < 0) throw std::runtime_error("no answer to a prebuilt datagram");
      netlink::ByteView answers(buffer.data(), static_cast<std::size_t>(size));
      while (true) {
        const auto message = netlink::take_message(answers);
        if (!message || !*message) break;
        std::int32_t error = 0;
        std::memcpy(&error, (*message)->payload.data(), sizeof error);
        if (error != 0)
          throw std::runtime_error("the kernel refused a prebuilt message: error " +
                                   std::to_string(-error));
        answered = answered || (*message)->sequence == datagram.last_sequence;
      }
    }
  }
}

}  // namespace ipvsproxier::bench

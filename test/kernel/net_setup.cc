#include "test/kernel/net_setup.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>

#include <stdexcept>

#include "netlink/ip_address.h"

namespace ipvsproxier::test {
namespace {

using netlink::Bytes;
using netlink::bytes_of;
using netlink::ByteView;
using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::kMessageHeaderSize;
using netlink::MessageWriter;
using netlink::NlChannel;
using netlink::Operation;

constexpr std::uint16_t kCreate = NLM_F_CREATE | NLM_F_EXCL;

// A new link, up.
ifinfomsg up_link() {
  ifinfomsg header{};
  header.ifi_flags = IFF_UP;
  header.ifi_change = IFF_UP;
  return header;
}

std::uint8_t kernel_family(const IpAddress& address) {
  return address.family() == Family::ipv4 ? AF_INET : AF_INET6;
}

template <typename T>
T known(std::optional<T> value, const std::string& text) {
  if (!value) throw std::runtime_error("no address or prefix: " + text);
  return *value;
}

NlChannel open_channel(const Netns& netns) {
  auto channel = netns.inside([] { return NlChannel::open(NETLINK_ROUTE); });
  if (!channel) throw std::runtime_error(netlink::to_string(channel.error()));
  return std::move(*channel);
}

}  // namespace

NetSetup::NetSetup(const Netns& netns) : netns_(netns), channel_(open_channel(netns)) {}

void NetSetup::bridge(const std::string& name) {
  MessageWriter message(RTM_NEWLINK, kCreate, bytes_of(up_link()));
  message.put_string(IFLA_IFNAME, name);
  {
    const auto info = message.nest(IFLA_LINKINFO);
    message.put_string(IFLA_INFO_KIND, "bridge");
  }
  request("add bridge " + name, std::move(message));
}

void NetSetup::veth(const std::string& name, const Netns& peer_netns,
                    const std::string& peer_name) {
  // The other end is described as in a message of its own, without the message's header. It cannot
  // be made up: at that moment it has no peer yet (drivers/net/veth.c, veth_open).
  MessageWriter peer_message(RTM_NEWLINK, 0, bytes_of(ifinfomsg{}));
  peer_message.put_string(IFLA_IFNAME, peer_name);
  peer_message.put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(peer_netns.fd()));
  const Bytes peer = std::move(peer_message).take();

  MessageWriter message(RTM_NEWLINK, kCreate, bytes_of(up_link()));
  message.put_string(IFLA_IFNAME, name);
  {
    const auto info = message.nest(IFLA_LINKINFO);
    message.put_string(IFLA_INFO_KIND, "veth");
    const auto data = message.nest(IFLA_INFO_DATA);
    message.put_bytes(VETH_INFO_PEER, ByteView(peer).subspan(kMessageHeaderSize));
  }
  request("add veth " + name, std::move(message));
  NetSetup(peer_netns).up(peer_name);
}

void NetSetup::up(const std::string& link) {
  ifinfomsg header = up_link();
  header.ifi_index = static_cast<int>(index_of(link));
  request("bring up " + link, MessageWriter(RTM_NEWLINK, 0, bytes_of(header)));
}

void NetSetup::down(const std::string& link) {
  ifinfomsg header{};
  header.ifi_change = IFF_UP;
  header.ifi_index = static_cast<int>(index_of(link));
  request("bring down " + link, MessageWriter(RTM_NEWLINK, 0, bytes_of(header)));
}

void NetSetup::remove(const std::string& link) {
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(index_of(link));
  request("remove " + link, MessageWriter(RTM_DELLINK, 0, bytes_of(header)));
}

void NetSetup::enslave(const std::string& link, const std::string& bridge, bool hairpin) {
  ifinfomsg header = up_link();
  header.ifi_index = static_cast<int>(index_of(link));
  MessageWriter master(RTM_NEWLINK, 0, bytes_of(header));
  master.put_u32(IFLA_MASTER, index_of(bridge));
  request("make " + link + " a port of " + bridge, std::move(master));

  MessageWriter mode(RTM_NEWLINK, 0, bytes_of(header));
  {
    const auto info = mode.nest(IFLA_LINKINFO);
    mode.put_string(IFLA_INFO_SLAVE_KIND, "bridge");
    const auto data = mode.nest(IFLA_INFO_SLAVE_DATA);
    mode.put_u8(IFLA_BRPORT_MODE, hairpin ? 1 : 0);
  }
  request("set hairpin mode of " + link, std::move(mode));
}

MessageWriter NetSetup::address_message(std::uint16_t type, std::uint16_t flags,
                                        const std::string& link, const std::string& prefix) const {
  const auto slash = prefix.find('/');
  const auto length = known(IpPrefix::parse(prefix), prefix).length;
  const auto address = known(IpAddress::parse(prefix.substr(0, slash)), prefix);
  ifaddrmsg header{};
  header.ifa_family = kernel_family(address);
  header.ifa_prefixlen = length;
  header.ifa_flags = address.family() == Family::ipv6 ? IFA_F_NODAD : 0;
  header.ifa_index = index_of(link);
  MessageWriter message(type, flags, bytes_of(header));
  message.put_bytes(IFA_LOCAL, address.bytes());
  message.put_bytes(IFA_ADDRESS, address.bytes());
  return message;
}

void NetSetup::address(const std::string& link, const std::string& prefix) {
  request("add " + prefix + " to " + link, address_message(RTM_NEWADDR, kCreate, link, prefix));
}

void NetSetup::remove_address(const std::string& link, const std::string& prefix) {
  request("remove " + prefix + " from " + link, address_message(RTM_DELADDR, 0, link, prefix));
}

void NetSetup::route(const std::string& destination, const std::string& gateway) {
  const auto prefix = known(IpPrefix::parse(destination), destination);
  const auto via = known(IpAddress::parse(gateway), gateway);
  rtmsg header{};
  header.rtm_family = kernel_family(via);
  header.rtm_dst_len = prefix.length;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_BOOT;
  header.rtm_scope = RT_SCOPE_UNIVERSE;
  header.rtm_type = RTN_UNICAST;
  MessageWriter message(RTM_NEWROUTE, kCreate, bytes_of(header));
  if (prefix.length > 0) message.put_bytes(RTA_DST, prefix.address.bytes());
  message.put_bytes(RTA_GATEWAY, via.bytes());
  request("add a route to " + destination + " via " + gateway, std::move(message));
}

std::uint32_t NetSetup::index_of(const std::string& link) const {
  const auto index = netns_.inside([&] { return ::if_nametoindex(link.c_str()); });
  if (index == 0) throw std::runtime_error("no link " + link);
  return index;
}

void NetSetup::request(const std::string& what, MessageWriter message) {
  const std::vector<Bytes> requests = {std::move(message).take()};
  const auto outcomes = channel_.transact(Operation::link, requests);
  if (!outcomes.at(0)) {
    throw std::runtime_error(what + ": " + netlink::to_string(outcomes.at(0).error()));
  }
}

}  // namespace ipvsproxier::test

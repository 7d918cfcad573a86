#include "netlink/links/link_events.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstring>

#include <catch2/catch.hpp>

#include "test/support/hex.h"

namespace ipvsproxier::netlink {
namespace {

constexpr std::int32_t kOurs = 7;
constexpr std::int32_t kOther = 9;
constexpr unsigned kCreated = ~0U;

Bytes link(std::uint16_t type, std::int32_t index, const std::string& name, unsigned change = 0,
           unsigned char family = AF_UNSPEC) {
  ifinfomsg header{};
  header.ifi_family = family;
  header.ifi_index = index;
  header.ifi_change = change;
  MessageWriter out(type, 0, bytes_of(header));
  out.put_string(IFLA_IFNAME, name);
  return std::move(out).take();
}

Bytes address(std::uint16_t type, std::int32_t index, const std::string& ip,
              std::optional<std::uint8_t> length = std::nullopt) {
  const auto parsed = *IpAddress::parse(ip);
  ifaddrmsg header{};
  header.ifa_family = parsed.family() == Family::ipv4 ? AF_INET : AF_INET6;
  header.ifa_prefixlen = length.value_or(address_bits(parsed.family()));
  header.ifa_index = static_cast<std::uint32_t>(index);
  MessageWriter out(type, 0, bytes_of(header));
  out.put_bytes(IFA_ADDRESS, parsed.bytes());
  return std::move(out).take();
}

Bytes loop_link(std::uint16_t type, const std::string& name, bool up) {
  ifinfomsg header{};
  header.ifi_index = 20;
  header.ifi_flags = up ? IFF_UP : 0;
  MessageWriter out(type, 0, bytes_of(header));
  out.put_string(IFLA_IFNAME, name);
  return std::move(out).take();
}

LinkEventReader reader() {
  return LinkEventReader("kube-ipvs", {kOurs});
}

LinkEvents after(LinkEventReader& reader, const std::vector<Bytes>& messages) {
  LinkEvents events;
  for (const auto& message : messages) reader.take(message, events);
  return events;
}

LinkEvents after(const std::vector<Bytes>& messages) {
  auto fresh = reader();
  return after(fresh, messages);
}

LinkEvents lost(const std::set<std::string>& ips) {
  LinkEvents events;
  for (const auto& ip : ips) events.lost.insert(*IpAddress::parse(ip));
  return events;
}

TEST_CASE("addresses taken off our link are lost, those put on it are nothing") {
  CHECK(after({address(RTM_NEWADDR, kOurs, "10.96.0.1"), address(RTM_NEWADDR, kOurs, "fd00::1")})
            .empty());
  CHECK(after({address(RTM_DELADDR, kOurs, "10.96.0.1"), address(RTM_DELADDR, kOurs, "fd00::1")}) ==
        lost({"10.96.0.1", "fd00::1"}));
  // Taken off and put back before anybody looked, but not as a network's address.
  CHECK(after({address(RTM_DELADDR, kOurs, "10.96.0.1"), address(RTM_NEWADDR, kOurs, "10.96.0.1")})
            .empty());
  CHECK(after({address(RTM_DELADDR, kOurs, "10.96.0.1"),
               address(RTM_NEWADDR, kOurs, "10.96.0.1", 24)}) == lost({"10.96.0.1"}));
  CHECK(after({address(RTM_NEWADDR, kOurs, "10.96.0.1"),
               address(RTM_DELADDR, kOurs, "10.96.0.1")}) == lost({"10.96.0.1"}));
}

TEST_CASE("addresses of other links change, but for those that never count") {
  const LinkEvents changed{.others_changed = true};
  CHECK(after({address(RTM_NEWADDR, kOther, "192.0.2.1", 24)}) == changed);
  CHECK(after({address(RTM_DELADDR, kOther, "192.0.2.1", 24)}) == changed);
  CHECK(after({address(RTM_NEWADDR, kOther, "2001:db8::1", 64)}) == changed);
  // The proxier has rules for them where they are IPv4.
  CHECK(after({address(RTM_NEWADDR, kOther, "169.254.20.10")}) == changed);
  CHECK(after({address(RTM_DELADDR, kOurs, "fe80::1", 64)}).empty());
  for (const std::uint16_t type : {RTM_NEWADDR, RTM_DELADDR}) {
    CHECK(after({address(type, kOther, "fe80::1", 64)}).empty());
    CHECK(after({address(type, 1, "127.0.0.1", 8)}).empty());
    CHECK(after({address(type, 1, "::1")}).empty());
  }
}

TEST_CASE("an address whose lifetime is renewed has not changed") {
  auto in = reader();
  CHECK(after(in, {address(RTM_NEWADDR, kOther, "192.0.2.1", 24)}).others_changed);
  CHECK(after(in, {address(RTM_NEWADDR, kOther, "192.0.2.1", 24)}).empty());
  CHECK(after(in, {address(RTM_NEWADDR, kOther + 1, "192.0.2.1", 24)}).others_changed);
  CHECK(after(in, {address(RTM_DELADDR, kOther, "192.0.2.1", 24)}).others_changed);
  CHECK(after(in, {address(RTM_NEWADDR, kOther, "192.0.2.1", 24)}).others_changed);
  // A later link may have the index of one that is gone, and after a loss nothing is known.
  CHECK(after(in, {link(RTM_DELLINK, kOther, "eth0")}).empty());
  CHECK(after(in, {address(RTM_NEWADDR, kOther, "192.0.2.1", 24)}).others_changed);
  CHECK(after(in, {address(RTM_NEWADDR, kOther + 1, "192.0.2.1", 24)}).empty());
  in.restart({kOurs});
  CHECK(after(in, {address(RTM_NEWADDR, kOther + 1, "192.0.2.1", 24)}).others_changed);
}

TEST_CASE("our link is lost with its addresses, and found again under another index") {
  auto in = reader();
  auto wanted = lost({"10.96.0.1"});
  wanted.link_lost = true;
  CHECK(after(in, {address(RTM_DELADDR, kOurs, "10.96.0.1"),
                   link(RTM_DELLINK, kOurs, "kube-ipvs0")}) == wanted);
  CHECK(in.indices().empty());
  CHECK(after(in, {address(RTM_DELADDR, kOurs, "10.96.0.2")}) ==
        LinkEvents{.others_changed = true});
  CHECK(after(in, {link(RTM_NEWLINK, 12, "kube-ipvs0", kCreated)}).empty());
  CHECK(in.indices() == std::set<std::int32_t>{12});
  CHECK(after(in, {address(RTM_DELADDR, 12, "10.96.0.1")}) == lost({"10.96.0.1"}));
  // Made anew before anybody looked: the addresses are gone all the same.
  CHECK(after(in, {link(RTM_DELLINK, 12, "kube-ipvs0"),
                   link(RTM_NEWLINK, 13, "kube-ipvs0", kCreated)}) ==
        LinkEvents{.link_lost = true});
  CHECK(in.indices() == std::set<std::int32_t>{13});
}

TEST_CASE("an old notification does not hide the link that there is now") {
  auto in = reader();
  CHECK(after(in, {link(RTM_DELLINK, 3, "kube-ipvs0")}) == LinkEvents{.link_lost = true});
  CHECK(in.indices() == std::set<std::int32_t>{kOurs});
}

TEST_CASE("links change their names") {
  auto in = reader();
  const LinkEvents both{.link_lost = true, .others_changed = true};
  CHECK(after(in, {link(RTM_NEWLINK, kOurs, "other0")}) == both);
  CHECK(after(in, {address(RTM_DELADDR, kOurs, "10.96.0.1")}) ==
        LinkEvents{.others_changed = true});
  CHECK(after(in, {link(RTM_NEWLINK, kOther, "kube-ipvs0")}) == LinkEvents{.others_changed = true});
  CHECK(after(in, {address(RTM_DELADDR, kOther, "10.96.0.1")}) == lost({"10.96.0.1"}));
  CHECK(after(in, {link(RTM_NEWLINK, kOther, "kube-ipvs0", kCreated)}).empty());
}

TEST_CASE("other links, and ours in a bridge, are no events") {
  auto in = reader();
  CHECK(after(in, {link(RTM_NEWLINK, kOther, "eth0", kCreated), link(RTM_DELLINK, kOther, "eth0"),
                   link(RTM_NEWLINK, kOurs, "kube-ipvs0", 1),
                   link(RTM_NEWLINK, kOurs, "kube-ipvs0", 0, AF_BRIDGE),
                   link(RTM_DELLINK, kOurs, "kube-ipvs0", 0, AF_BRIDGE),
                   MessageWriter(RTM_NEWNEIGH, 0, {}).take()})
            .empty());
  CHECK(in.indices() == std::set<std::int32_t>{kOurs});
}

TEST_CASE("what cannot be read is an overrun; what follows it is read") {
  auto in = reader();
  const LinkEvents overrun{.overrun = true};
  CHECK(after(in, {test::from_hex("1000")}) == overrun);
  CHECK(after(in, {MessageWriter(RTM_DELLINK, 0, {}).take()}) == overrun);
  CHECK(after(in, {MessageWriter(RTM_DELADDR, 0, {}).take()}) == overrun);
  auto datagram = MessageWriter(RTM_DELLINK, 0, {}).take();
  const auto second = address(RTM_DELADDR, kOurs, "10.96.0.1");
  datagram.insert(datagram.end(), second.begin(), second.end());
  auto wanted = lost({"10.96.0.1"});
  wanted.overrun = true;
  CHECK(after(in, {datagram}) == wanted);
}

TEST_CASE("all links of the series are ours, and none with another name") {
  LinkEventReader in("kube-ipvs", {kOurs});
  CHECK(after(in, {link(RTM_NEWLINK, 12, "kube-ipvs1", kCreated),
                   link(RTM_NEWLINK, 13, "kube-ipvs", kCreated),
                   link(RTM_NEWLINK, 14, "kube-ipvs1x", kCreated)})
            .empty());
  CHECK(in.indices() == std::set<std::int32_t>{kOurs, 12});
  CHECK(after(in, {address(RTM_NEWADDR, 12, "10.96.0.1")}).empty());
  CHECK(after(in, {address(RTM_DELADDR, 12, "10.96.0.1")}) == lost({"10.96.0.1"}));
  CHECK(after(in, {address(RTM_NEWADDR, 14, "10.96.0.1")}).others_changed);
  auto wanted = lost({"10.96.0.2"});
  wanted.link_lost = true;
  CHECK(after(in, {address(RTM_DELADDR, 12, "10.96.0.2"), link(RTM_DELLINK, 12, "kube-ipvs1")}) ==
        wanted);
  CHECK(in.indices() == std::set<std::int32_t>{kOurs});
}

TEST_CASE("the number of a link in a series is read as we write it alone") {
  CHECK(number_in_series("kube-ipvs0", "kube-ipvs") == 0);
  CHECK(number_in_series("kube-ipvs17", "kube-ipvs") == 17);
  CHECK(number_in_series("kube-ipvs1023", "kube-ipvs") == 1023);
  for (const auto* other : {"kube-ipvs", "kube-ipvs00", "kube-ipvs01", "kube-ipvs-1", "kube-ipvs+1",
                            "kube-ipvs1 ", "kube-ipvs1024", "kube-ipvs65537", "kube-ip0", ""})
    CHECK_FALSE(number_in_series(other, "kube-ipvs"));
}

TEST_CASE("local routes of ours that are removed are lost, others are nothing") {
  const auto route = [](std::uint16_t type, const std::string& ip, std::uint8_t protocol = 107) {
    const auto added = encode_local_route_op({true, *IpAddress::parse(ip)});
    rtmsg header;
    std::memcpy(&header, added.data() + kMessageHeaderSize, sizeof header);
    header.rtm_protocol = protocol;
    auto message = added;
    std::memcpy(message.data() + kMessageHeaderSize, &header, sizeof header);
    std::memcpy(message.data() + 4, &type, sizeof type);
    return message;
  };
  CHECK(after({route(RTM_NEWROUTE, "10.0.0.1"), route(RTM_NEWROUTE, "fd00::1")}).empty());
  CHECK(after({route(RTM_DELROUTE, "10.0.0.1"), route(RTM_DELROUTE, "fd00::1")}) ==
        lost({"10.0.0.1", "fd00::1"}));
  CHECK(after({route(RTM_DELROUTE, "10.0.0.1"), route(RTM_NEWROUTE, "10.0.0.1")}).empty());
  CHECK(after({route(RTM_DELROUTE, "10.0.0.1", RTPROT_KERNEL)}).empty());
  auto broken = route(RTM_DELROUTE, "10.0.0.1");
  broken[kMessageHeaderSize + 12] = 3;  // the length of its first attribute
  CHECK(after({broken}).overrun);
}

TEST_CASE(
    "a link of a loop is lost when it goes, or is no longer up; its addresses do not matter") {
  const auto lost = [](const Bytes& message, const std::string& series = "kube-local") {
    LinkEventReader fresh("kube-ipvs", {kOurs}, series);
    return after(fresh, {message}).link_lost;
  };
  CHECK(lost(loop_link(RTM_DELLINK, "kube-local1", true)));
  CHECK(lost(loop_link(RTM_NEWLINK, "kube-local0", false)));
  CHECK_FALSE(lost(loop_link(RTM_NEWLINK, "kube-local0", true)));
  CHECK_FALSE(lost(loop_link(RTM_NEWLINK, "kube-locals", false)));
  CHECK_FALSE(lost(loop_link(RTM_DELLINK, "kube-local1", true), ""));
}

}  // namespace
}  // namespace ipvsproxier::netlink

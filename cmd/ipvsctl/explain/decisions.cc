#include "cmd/ipvsctl/explain/decisions.h"

#include <cerrno>

#include <algorithm>
#include <system_error>
#include <variant>

#include <fmt/format.h>

namespace ipvsproxier::ctl {

using netlink::Error;
using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::VirtualServiceKey;

// --- IPVS

namespace {

constexpr std::uint16_t kFtpPort = 21;
constexpr std::uint16_t kFtpDataPort = 20;
constexpr std::uint16_t kFirstUserPort = 1024;  // net.ipv4.ip_unprivileged_port_start

const plan::ActualService* find_service(const NodeReading& node, const Packet& packet) {
  const auto find = [&](const VirtualServiceKey& key) {
    const auto found = node.services.find(key);
    return found == node.services.end() ? nullptr : &found->second;
  };
  const auto& address = packet.destination;
  const auto port = packet.destination_port;
  if (packet.mark != 0) {
    const auto any = netlink::IpAddress::any(address.family());
    for (const auto& [key, service] : node.services)
      if (key.fwmark == packet.mark && key.address == any) return &service;
  }
  if (const auto* const exact = find({address, packet.protocol, port})) return exact;
  if (packet.protocol == Protocol::tcp && (port == kFtpDataPort || port >= kFirstUserPort))
    if (const auto* const ftp = find({address, packet.protocol, kFtpPort})) return ftp;
  return find({address, packet.protocol, 0});
}

std::string describe(const netlink::VirtualService& service) {
  auto text = fmt::format("virtual service {}, scheduler {}", to_string(service.key),
                          service.scheduler.view());
  if ((service.flags & netlink::kPersistent) != 0)
    text += fmt::format(", a client stays with its server for {} s", service.timeout);
  return text;
}

}  // namespace

VirtualChoice choose_service(const NodeReading& node, const Packet& packet) {
  VirtualChoice choice;
  choice.service = find_service(node, packet);
  if (choice.service == nullptr) return choice;
  const auto& service = choice.service->service;
  const auto& key = service.key;
  choice.text = describe(service);
  choice.passes = key.port == kFtpPort && packet.destination_port != kFtpPort;
  const bool persistent = (service.flags & netlink::kPersistent) != 0;
  if (key.fwmark == 0 && key.port != packet.destination_port && !persistent) {
    choice.why_none = "it is not for this port";
    return choice;
  }
  if (!choice.service->servers) {
    choice.why_none = "its real servers could not be read";
    return choice;
  }
  for (const auto& server : *choice.service->servers)
    (server.weight == 0 ? choice.passed_over : choice.candidates).push_back(server);
  choice.why_none =
      choice.passed_over.empty() ? "it has no real server" : "all its real servers have weight 0";
  return choice;
}

// --- the host

std::string route_failure(const Error& error) {
  switch (error.sys_errno) {
    case EXDEV:
      return "answers to its source would leave by another link (rp_filter)";
    case EINVAL:
      return "its source cannot come from there, or its route is a blackhole";
    case EHOSTUNREACH:
      return "unreachable, or this node does not forward (net.ipv4.ip_forward)";
    case ENETUNREACH:
      return "there is no route";
    case EACCES:
      return "its route prohibits it";
    default:
      return std::generic_category().message(error.sys_errno);
  }
}

Notice failure_notice(const NodeReading& node, const Packet& packet, const Error& error) {
  const bool is_told = error.sys_errno == EHOSTUNREACH || error.sys_errno == ENETUNREACH ||
                       error.sys_errno == EACCES;
  const bool speaks =
      packet.destination.family() == Family::ipv6 || node.forwards_ipv4.count(packet.in_link) != 0;
  return is_told && speaks ? Notice::host_unreachable : Notice::none;
}

std::string link_name(const NodeReading& node, std::int32_t index) {
  const auto found = std::ranges::find(node.links, index, &netlink::LinkRecord::index);
  return found == node.links.end() ? "" : found->name;
}

std::optional<IpAddress> select_address(const NodeReading& node, std::int32_t link,
                                        const IpAddress& next_hop) {
  const netlink::AddressRecord* first = nullptr;
  const netlink::AddressRecord* other = nullptr;
  for (const auto& record : node.addresses) {
    if (record.address.family() != Family::ipv4 || !record.global || record.secondary) continue;
    if (record.link_index != link) {
      if (other == nullptr || record.link_index < other->link_index) other = &record;
      continue;
    }
    if (netlink::IpPrefix::of(record.address, record.prefix_length).contains(next_hop))
      return record.address;
    if (first == nullptr) first = &record;
  }
  const auto* const chosen = first != nullptr ? first : other;
  return chosen == nullptr ? std::nullopt : std::optional(chosen->address);
}

netlink::IpAddress redirect_address(const NodeReading& node, const Packet& packet) {
  const auto family = packet.destination.family();
  if (packet.in_link.empty())
    return *netlink::IpAddress::parse(family == netlink::Family::ipv4 ? "127.0.0.1" : "::1");
  for (const auto& record : node.addresses)
    if (record.address.family() == family && link_name(node, record.link_index) == packet.in_link)
      return record.address;
  return packet.destination;
}

std::optional<bool> is_heard(const NodeReading& node, const Packet& packet) {
  if (!node.listeners || packet.protocol == netlink::Protocol::sctp) return std::nullopt;
  return std::ranges::any_of(*node.listeners, [&](const netlink::Listener& socket) {
    const bool family_fits =
        socket.address.family() == packet.destination.family() || socket.both_families;
    return socket.protocol == packet.protocol && socket.port == packet.destination_port &&
           family_fits && (socket.address.is_any() || socket.address == packet.destination);
  });
}

Notice unheard_notice(const Packet& packet) {
  if (packet.protocol != netlink::Protocol::tcp) return Notice::port_unreachable;
  // tcp_v6_send_response() looks for a route to ::1 on the link of the original destination, and
  // finds none (rt6_need_strict(); seen on 6.1.176).
  const bool astray = packet.source.family() == Family::ipv6 && packet.source.is_loopback() &&
                      !packet.destination.is_loopback();
  return astray ? Notice::none : Notice::reset;
}

bool keeps_out_of_flowtables(const NodeReading& node, netlink::Family family) {
  if (node.has_flow_table) return true;
  const auto ours = node.tables.find({family, ipset::Table::kube_ipvs});
  return ours != node.tables.end() &&
         std::ranges::any_of(ours->second.chains, [](const auto& chain) {
           return std::ranges::any_of(chain.second, [](const ipset::Rule& rule) {
             return std::holds_alternative<ipset::UnacceleratedTarget>(rule.target);
           });
         });
}

}  // namespace ipvsproxier::ctl

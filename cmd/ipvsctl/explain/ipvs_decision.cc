#include "cmd/ipvsctl/explain/ipvs_decision.h"

#include <fmt/format.h>

namespace ipvsproxier::ctl {

using netlink::Protocol;
using netlink::VirtualServiceKey;

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

}  // namespace ipvsproxier::ctl

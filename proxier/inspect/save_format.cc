#include "proxier/inspect/save_format.h"

#include <cstdlib>
#include <cstring>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace ipvsproxier::inspect {

using netlink::ForwardMethod;
using netlink::IpAddress;
using netlink::ListedServer;
using netlink::RealServer;
using netlink::VirtualService;
using netlink::VirtualServiceKey;

namespace {

// The difference as a C program gets it that subtracts unsigned numbers into an int.
int wrapped_difference(std::uint32_t left, std::uint32_t right) {
  return static_cast<int>(left - right);
}

// The first four bytes: of an IPv6 address too, where a service has servers of both families.
std::uint32_t v4_number(const IpAddress& address) {
  std::uint32_t number = 0;
  for (const auto byte : address.bytes().first(4)) number = number << 8 | byte;
  return number;
}

// Addresses of two families compare by their first four bytes, as ipvsadm was seen to do.
int compare_addresses(const IpAddress& left, const IpAddress& right) {
  if (left.family() == netlink::Family::ipv6 && right.family() == netlink::Family::ipv6)
    return std::memcmp(left.bytes().data(), right.bytes().data(), left.bytes().size());
  return wrapped_difference(v4_number(left), v4_number(right));
}

int compare_services(const ServiceTable& left, const ServiceTable& right) {
  const auto& a = left.service.key;
  const auto& b = right.service.key;
  if (a.fwmark != b.fwmark) return wrapped_difference(a.fwmark, b.fwmark);
  if (a.address.family() != b.address.family())
    return a.address.family() < b.address.family() ? -1 : 1;
  if (a.protocol != b.protocol) return a.protocol < b.protocol ? -1 : 1;
  if (const int order = compare_addresses(a.address, b.address); order != 0) return order;
  return static_cast<int>(a.port) - static_cast<int>(b.port);
}

int compare_servers(const ListedServer& left, const ListedServer& right) {
  const auto& a = left.server.key;
  const auto& b = right.server.key;
  if (const int order = compare_addresses(a.address, b.address); order != 0) return order;
  return static_cast<int>(a.port) - static_cast<int>(b.port);
}

// What ipvsadm's qsort makes of it: the C library's is a merge sort for these sizes, and a
// comparison that is no order is defined by nothing else. Sorting pointers keeps the elements
// whole.
template <typename T, int (*Compare)(const T&, const T&)>
std::vector<const T*> sorted(const std::vector<T>& elements) {
  std::vector<const T*> order;
  for (const auto& element : elements) order.push_back(&element);
  if (order.empty()) return order;  // qsort takes no null pointer
  std::qsort(order.data(), order.size(), sizeof(const T*), [](const void* left, const void* right) {
    return Compare(**static_cast<const T* const*>(left), **static_cast<const T* const*>(right));
  });
  return order;
}

std::string service_option(const VirtualServiceKey& key) {
  if (key.fwmark != 0)
    return fmt::format("-f {}{}", static_cast<std::int32_t>(key.fwmark),
                       key.address.family() == netlink::Family::ipv6 ? " -6" : "");
  auto where = to_string(key.address, key.port);
  switch (key.protocol) {
    case netlink::Protocol::tcp:
      return "-t " + where;
    case netlink::Protocol::udp:
      return "-u " + where;
    case netlink::Protocol::sctp:
      return "--sctp-service " + where;
  }
  return where;
}

std::string scheduler_flags(const VirtualService& service) {
  // sh and mh have names for two flags, and none for the third: it is left out.
  const bool hashing = service.scheduler == "sh" || service.scheduler == "mh";
  const auto name = [&](std::string_view suffix, int number) {
    return hashing ? fmt::format("{}-{}", service.scheduler.view(), suffix)
                   : fmt::format("flag-{}", number);
  };
  std::string names;
  const auto append = [&](const std::string& one) { names += (names.empty() ? "" : ",") + one; };
  if ((service.flags & netlink::kSchedulerFlag1) != 0) append(name("fallback", 1));
  if ((service.flags & netlink::kSchedulerFlag2) != 0) append(name("port", 2));
  if ((service.flags & netlink::kSchedulerFlag3) != 0 && !hashing) append("flag-3");
  return names;
}

std::string netmask(const VirtualService& service) {
  const auto family = service.key.address.family();
  if (service.netmask_bits == address_bits(family)) return "";
  if (family == netlink::Family::ipv6) return fmt::format(" -M {}", service.netmask_bits);
  const std::array<std::uint8_t, 4> ones = {255, 255, 255, 255};
  const auto mask =
      netlink::IpPrefix::of(*IpAddress::from_bytes(family, ones), service.netmask_bits);
  return " -M " + mask.address.to_string();
}

std::string service_line(const VirtualService& service) {
  constexpr auto kSchedulerFlags =
      netlink::kSchedulerFlag1 | netlink::kSchedulerFlag2 | netlink::kSchedulerFlag3;
  auto line = fmt::format("-A {} -s {}", service_option(service.key), service.scheduler.view());
  if ((service.flags & netlink::kPersistent) != 0)
    line += fmt::format(" -p {}", service.timeout) + netmask(service);
  if (!service.persistence_engine.empty())
    line += fmt::format(" --pe {}", service.persistence_engine.view());
  if ((service.flags & netlink::kOnePacket) != 0) line += " -o";
  if ((service.flags & kSchedulerFlags) != 0) line += " -b " + scheduler_flags(service);
  return line + "\n";
}

std::string tunnel_options(const RealServer& server) {
  constexpr std::uint8_t kGue = 1;
  constexpr std::uint8_t kGre = 2;
  constexpr std::uint16_t kChecksum = 1;
  constexpr std::uint16_t kRemoteChecksum = 2;
  if (server.method != ForwardMethod::tunnel) return "";
  if (server.tunnel_type != kGue && server.tunnel_type != kGre) return " --tun-type ipip";
  auto options = server.tunnel_type == kGue
                     ? fmt::format(" --tun-type gue --tun-port {}", server.tunnel_port)
                     : std::string(" --tun-type gre");
  if ((server.tunnel_flags & kChecksum) != 0) return options + " --tun-csum";
  if ((server.tunnel_flags & kRemoteChecksum) != 0) return options + " --tun-remcsum";
  return options + " --tun-nocsum";
}

std::string_view method_option(ForwardMethod method) {
  switch (method) {
    case ForwardMethod::masquerade:
      return "-m";
    case ForwardMethod::tunnel:
      return "-i";
    case ForwardMethod::local:
    case ForwardMethod::route:
      return "-g";
  }
  return "-g";
}

}  // namespace

std::string format_save(const std::vector<ServiceTable>& table) {
  std::string text;
  for (const auto* entry : sorted<ServiceTable, compare_services>(table)) {
    text += service_line(entry->service);
    for (const auto* listed : sorted<ListedServer, compare_servers>(entry->servers))
      text += fmt::format("-a {} -r {} {} -w {}{}\n", service_option(entry->service.key),
                          to_string(listed->server.key), method_option(listed->server.method),
                          listed->server.weight, tunnel_options(listed->server));
  }
  return text;
}

}  // namespace ipvsproxier::inspect

#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cmd/ipvsctl/listing/entry_text.h"
#include "cmd/ipvsctl/listing/table_form.h"

namespace ipvsproxier::ctl {

using netlink::ForwardMethod;
using netlink::RealServer;
using netlink::ServerReading;
using netlink::ServiceReading;
using netlink::VirtualServiceKey;

namespace {

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

std::string tunnel_options(const RealServer& server) {
  if (server.method != ForwardMethod::tunnel) return "";
  if (server.tunnel_type != kTunnelGue && server.tunnel_type != kTunnelGre)
    return " --tun-type ipip";
  auto options = server.tunnel_type == kTunnelGue
                     ? fmt::format(" --tun-type gue --tun-port {}", server.tunnel_port)
                     : std::string(" --tun-type gre");
  switch (tunnel_checksum(server)) {
    case TunnelChecksum::whole:
      return options + " --tun-csum";
    case TunnelChecksum::remote:
      return options + " --tun-remcsum";
    case TunnelChecksum::none:
      return options + " --tun-nocsum";
  }
  return options;
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

class SaveForm final : public TableForm {
 public:
  void begin_service(std::string& text, const ServiceReading& reading) override {
    const auto& service = reading.service;
    const auto out = std::back_inserter(text);
    fmt::format_to(out, "-A {} -s {}", service_option(service.key), service.scheduler.view());
    if ((service.flags & netlink::kPersistent) != 0) {
      fmt::format_to(out, " -p {}", service.timeout);
      if (const auto mask = netmask_text(reading); !mask.empty())
        fmt::format_to(out, " -M {}", mask);
    }
    if (!service.persistence_engine.empty())
      fmt::format_to(out, " --pe {}", service.persistence_engine.view());
    if ((service.flags & netlink::kOnePacket) != 0) text += " -o";
    if (has_scheduler_flags(service)) fmt::format_to(out, " -b {}", scheduler_flags(service));
    text += '\n';
  }

  void server(std::string& text, const ServiceReading& service,
              const ServerReading& reading) override {
    const auto& server = reading.listed.server;
    fmt::format_to(std::back_inserter(text), "-a {} -r {} {} -w {}{}\n",
                   service_option(service.service.key), to_string(server.key),
                   method_option(server.method), static_cast<std::int32_t>(server.weight),
                   tunnel_options(server));
  }
};

}  // namespace

std::unique_ptr<TableForm> save_form() {
  return std::make_unique<SaveForm>();
}

}  // namespace ipvsproxier::ctl

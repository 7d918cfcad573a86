#include <fmt/format.h>

#include "cmd/ipvsctl/listing/entry_text.h"
#include "cmd/ipvsctl/listing/table_form.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

using netlink::IpvsTraffic;
using netlink::ServerReading;
using netlink::ServiceReading;

namespace {

constexpr std::string_view kServerTitle = "  -> RemoteAddress:Port";
constexpr std::string_view kServiceTitle = "Prot LocalAddress:Port";

// A number in a column of eight characters after a blank; shortened unless `exact`.
void append_number(std::string& text, std::uint64_t number, bool exact) {
  const auto out = std::back_inserter(text);
  if (exact || number < 100'000'000)
    fmt::format_to(out, " {:8}", number);
  else if (number < 1'000'000'000)
    fmt::format_to(out, " {:7}K", number / 1000);
  else if (number < 100'000'000'000)
    fmt::format_to(out, " {:7}M", number / 1'000'000);
  else if (number < 100'000'000'000'000)
    fmt::format_to(out, " {:7}G", number / 1'000'000'000);
  else
    fmt::format_to(out, " {:7}T", number / 1'000'000'000'000);
}

std::string titles(Columns columns) {
  switch (columns) {
    case Columns::stats:
      return fmt::format("{:33} {:>8} {:>8} {:>8} {:>8} {:>8}\n{}\n", kServiceTitle, "Conns",
                         "InPkts", "OutPkts", "InBytes", "OutBytes", kServerTitle);
    case Columns::rate:
      return fmt::format("{:33} {:>8} {:>8} {:>8} {:>8} {:>8}\n{}\n", kServiceTitle, "CPS", "InPPS",
                         "OutPPS", "InBPS", "OutBPS", kServerTitle);
    case Columns::thresholds:
      return fmt::format("{:33} {:10} {:10} {:10} {:10}\n{}\n", kServiceTitle, "Uthreshold",
                         "Lthreshold", "ActiveConn", "InActConn", kServerTitle);
    case Columns::persistent:
      return fmt::format("{:33} {:9} {:11} {:10} {:10}\n{}\n", kServiceTitle, "Weight",
                         "PersistConn", "ActiveConn", "InActConn", kServerTitle);
    case Columns::tunnels:
      return fmt::format("{} Scheduler Flags\n{:33} Forward TunnelInfo    Weight ActiveConn {}\n",
                         kServiceTitle, kServerTitle, "InActConn");
    case Columns::plain:
      break;
  }
  return fmt::format("{} Scheduler Flags\n{:33} Forward Weight ActiveConn InActConn\n",
                     kServiceTitle, kServerTitle);
}

// " rr (flag-1) persistent 300 mask 255.255.255.0 pe sip ops"
void append_scheduling(std::string& text, const ServiceReading& reading) {
  const auto& service = reading.service;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, " {}", service.scheduler.view());
  if (has_scheduler_flags(service)) fmt::format_to(out, " ({})", scheduler_flags(service));
  if ((service.flags & netlink::kPersistent) != 0) {
    fmt::format_to(out, " persistent {}", service.timeout);
    if (const auto mask = netmask_text(reading); !mask.empty())
      fmt::format_to(out, " mask {}", mask);
    if (!service.persistence_engine.empty())
      fmt::format_to(out, " pe {}", service.persistence_engine.view());
  }
  if ((service.flags & netlink::kOnePacket) != 0) text += " ops";
}

std::string service_name(const netlink::VirtualServiceKey& key, AddressNames* names) {
  if (key.fwmark != 0) return mark_text(key);
  return fmt::format("{:4} {}", to_string(key.protocol),
                     address_text(key.address, key.port, key.protocol, names));
}

std::string server_name(const ServiceReading& service, const ServerReading& server,
                        AddressNames* names) {
  const auto& key = server.listed.server.key;
  const auto& by = service.service.key;
  // A firewall-mark service has no protocol.
  const auto protocol = by.fwmark != 0 ? std::nullopt : std::optional(by.protocol);
  return address_text(key.address, key.port, protocol, names);
}

class TextForm final : public TableForm {
 public:
  explicit TextForm(const TextStyle& style) : style_(style) {}

  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    fmt::format_to(std::back_inserter(text), "IP Virtual Server version {} (size={})\n",
                   version_text(info), info.connection_table_size);
    text += titles(style_.columns);
  }

  void begin_service(std::string& text, const ServiceReading& reading) override {
    constexpr std::size_t kNameWidth = 33;
    const auto& key = reading.service.key;
    auto name = service_name(key, style_.names);
    if (key.fwmark == 0 && key.address.family() == netlink::Family::ipv4 &&
        name.size() > kNameWidth)
      name.resize(api::head_of(name, kNameWidth).size());
    if (style_.columns == Columns::stats || style_.columns == Columns::rate) {
      fmt::format_to(std::back_inserter(text), "{:33}", name);
      append_traffic(text, reading.traffic);
    } else {
      text += name;
      append_scheduling(text, reading);
    }
    text += '\n';
  }

  void server(std::string& text, const ServiceReading& service,
              const ServerReading& reading) override {
    constexpr std::size_t kNameWidth = 28;
    const auto& server = reading.listed.server;
    auto name = server_name(service, reading, style_.names);
    if (server.key.address.family() == netlink::Family::ipv4 && name.size() > kNameWidth)
      name.resize(api::head_of(name, kNameWidth).size());
    fmt::format_to(std::back_inserter(text), "  -> {:28}", name);
    append_columns(text, reading);
    text += '\n';
  }

 private:
  void append_columns(std::string& text, const ServerReading& reading) const {
    const auto& [server, active, inactive, persistent] = reading.listed;
    const auto weight = static_cast<std::int32_t>(server.weight);
    const auto method = method_word(server.method);
    const auto out = std::back_inserter(text);
    switch (style_.columns) {
      case Columns::stats:
        return append_traffic(text, reading.traffic);
      case Columns::rate:
        return append_server_rates(text, reading.traffic);
      case Columns::thresholds:
        fmt::format_to(out, " {:<10} {:<10}", server.upper_threshold, server.lower_threshold);
        break;
      case Columns::persistent:
        fmt::format_to(out, " {:<9} {:<11}", server.weight, persistent);
        break;
      case Columns::tunnels: {
        const auto tunnel = tunnel_text(server);
        fmt::format_to(out, " {:7} {:13} {:<6}", method, tunnel.empty() ? "n/a" : tunnel, weight);
        break;
      }
      case Columns::plain:
        fmt::format_to(out, " {:7} {:<6}", method, weight);
        break;
    }
    fmt::format_to(out, " {:<10} {:<10}", active, inactive);
  }

  void append_traffic(std::string& text, const IpvsTraffic& traffic) const {
    const bool rates = style_.columns == Columns::rate;
    for (const auto number : {rates ? traffic.connection_rate : traffic.connections,
                              rates ? traffic.packet_rate_in : traffic.packets_in,
                              rates ? traffic.packet_rate_out : traffic.packets_out,
                              rates ? traffic.byte_rate_in : traffic.bytes_in,
                              rates ? traffic.byte_rate_out : traffic.bytes_out})
      append_number(text, number, style_.exact);
  }

  // The first three rates are never shortened.
  void append_server_rates(std::string& text, const IpvsTraffic& traffic) const {
    append_number(text, traffic.connection_rate, true);
    append_number(text, traffic.packet_rate_in, true);
    append_number(text, traffic.packet_rate_out, true);
    append_number(text, traffic.byte_rate_in, style_.exact);
    append_number(text, traffic.byte_rate_out, style_.exact);
  }

  TextStyle style_;
};

class WideForm final : public TableForm {
 public:
  explicit WideForm(AddressNames* names) : names_(names) {}

  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    fmt::format_to(std::back_inserter(text),
                   "IP Virtual Server version {} (size={})\n{} Scheduler Flags\n{:52} {:7} {:16} "
                   "{:>10} {:>10} {:>10} {:>10} {:>10} {:>11}\n",
                   version_text(info), info.connection_table_size, kServiceTitle, kServerTitle,
                   "Forward", "TunnelInfo", "Weight", "Uthreshold", "Lthreshold", "ActiveConn",
                   "InActConn", "PersistConn");
  }

  void begin_service(std::string& text, const ServiceReading& reading) override {
    text += service_name(reading.service.key, names_);
    append_scheduling(text, reading);
    text += '\n';
  }

  void server(std::string& text, const ServiceReading& service,
              const ServerReading& reading) override {
    const auto& [server, active, inactive, persistent] = reading.listed;
    const auto tunnel = tunnel_text(server);
    fmt::format_to(std::back_inserter(text),
                   "  -> {:47} {:7} {:16} {:10} {:10} {:10} {:10} {:10} {:11}\n",
                   server_name(service, reading, names_), method_word(server.method),
                   tunnel.empty() ? "-" : tunnel, server.weight, server.upper_threshold,
                   server.lower_threshold, active, inactive, persistent);
  }

 private:
  AddressNames* names_;
};

}  // namespace

std::unique_ptr<TableForm> text_form(const TextStyle& style) {
  return std::make_unique<TextForm>(style);
}

std::unique_ptr<TableForm> wide_form(AddressNames* names) {
  return std::make_unique<WideForm>(names);
}

}  // namespace ipvsproxier::ctl

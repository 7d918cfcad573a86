#include <optional>
#include <utility>

#include "cmd/ipvsctl/listing/entry_text.h"
#include "cmd/ipvsctl/listing/table_form.h"
#include "proxier/api/document_writer.h"

namespace ipvsproxier::ctl {

using netlink::IpvsTraffic;
using netlink::ServerReading;
using netlink::ServiceReading;

namespace {

void write_traffic(api::DocumentWriter& out, const IpvsTraffic& traffic) {
  out.object("traffic", [&] {
    out.member("bytesIn", traffic.bytes_in);
    out.member("bytesInPerSecond", traffic.byte_rate_in);
    out.member("bytesOut", traffic.bytes_out);
    out.member("bytesOutPerSecond", traffic.byte_rate_out);
    out.member("connections", traffic.connections);
    out.member("connectionsPerSecond", traffic.connection_rate);
    out.member("packetsIn", traffic.packets_in);
    out.member("packetsInPerSecond", traffic.packet_rate_in);
    out.member("packetsOut", traffic.packets_out);
    out.member("packetsOutPerSecond", traffic.packet_rate_out);
  });
}

// The members before the servers, in the order of their keys.
void write_service_head(api::DocumentWriter& out, const ServiceReading& reading, bool foreign) {
  const auto& service = reading.service;
  const auto& key = service.key;
  if (key.fwmark == 0) out.member("address", key.address.to_string());
  out.member("family", to_string(key.address.family()));
  if (foreign) out.member("foreign", true);
  if (key.fwmark != 0) out.member("fwmark", key.fwmark);
  out.member("onePacket", (service.flags & netlink::kOnePacket) != 0);
  if (!service.persistence_engine.empty())
    out.member("persistenceEngine", service.persistence_engine.view());
  if ((service.flags & netlink::kPersistent) != 0) {
    if (const auto mask = netmask_text(reading); !mask.empty())
      out.member("persistenceNetmask", mask);
    out.member("persistenceTimeoutSeconds", service.timeout);
  }
  if (key.fwmark == 0) {
    out.member("port", key.port);
    out.member("protocol", to_string(key.protocol));
  }
}

void write_virtual_name(api::DocumentWriter& out, const VirtualName& name) {
  out.object("service", [&] {
    out.member("facet", ipset::to_string(name.facet));
    out.member("name", name.service);
    out.member("namespace", name.ns);
    out.member("port", name.port);
  });
}

void write_service_tail(api::DocumentWriter& out, const ServiceReading& reading,
                        const std::optional<VirtualName>& name) {
  out.member("scheduler", reading.service.scheduler.view());
  if (has_scheduler_flags(reading.service))
    out.member("schedulerFlags", scheduler_flags(reading.service));
  if (name) write_virtual_name(out, *name);
  write_traffic(out, reading.traffic);
}

void write_endpoint(api::DocumentWriter& out, const ServerName& name) {
  out.object("endpoint", [&] {
    if (!name.node.empty()) out.member("node", name.node);
    if (!name.pod.empty()) out.member("pod", name.pod);
    out.member("ready", name.ready);
    out.member("serving", name.serving);
    out.member("terminating", name.terminating);
    if (!name.zone.empty()) out.member("zone", name.zone);
  });
}

void write_server(api::DocumentWriter& out, const ServiceReading& service,
                  const ServerReading& reading, const ClusterNames* names) {
  const auto& listed = reading.listed;
  const auto& server = listed.server;
  const auto name = names != nullptr ? names->of(service.service.key, server.key) : std::nullopt;
  out.object([&] {
    out.member("activeConnections", listed.active_connections);
    out.member("address", server.key.address.to_string());
    if (name) write_endpoint(out, *name);
    out.member("forward", method_word(server.method));
    out.member("inactiveConnections", listed.inactive_connections);
    out.member("lowerThreshold", server.lower_threshold);
    out.member("persistentConnections", listed.persistent_connections);
    out.member("port", server.key.port);
    write_traffic(out, reading.traffic);
    if (const auto tunnel = tunnel_text(server); !tunnel.empty()) out.member("tunnel", tunnel);
    out.member("upperThreshold", server.upper_threshold);
    out.member("weight", server.weight);
  });
}

// Until end_virtual_service() real servers are written.
void begin_virtual_service(api::DocumentWriter& out, const ServiceReading& service,
                           const ClusterNames* names) {
  out.open_object();
  write_service_head(out, service, names != nullptr && names->is_foreign(service.service.key));
  out.key("realServers");
  out.open_list();
}

void end_virtual_service(api::DocumentWriter& out, const ServiceReading& service,
                         const ClusterNames* names) {
  out.close();
  write_service_tail(out, service,
                     names != nullptr ? names->of(service.service.key) : std::nullopt);
  out.close();
}

class JsonForm final : public TableForm {
 public:
  explicit JsonForm(const ClusterNames* names) : names_(names) {}

  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    json_.open_object();
    json_.member("connectionTableSize", info.connection_table_size);
    json_.member("version", version_text(info));
    json_.key("virtualServices");
    json_.open_list();
    json_.move_to(text);
  }
  void begin_service(std::string& text, const ServiceReading& service) override {
    service_ = service;
    begin_virtual_service(json_, service, names_);
    json_.move_to(text);
  }
  void server(std::string& text, const ServiceReading& service,
              const ServerReading& server) override {
    write_server(json_, service, server, names_);
    json_.move_to(text);
  }
  void end_service(std::string& text) override {
    end_virtual_service(json_, service_, names_);
    json_.move_to(text);
  }
  void end(std::string& text) override {
    json_.close();
    json_.close();
    text += json_.take() + "\n";
  }

 private:
  const ClusterNames* names_;
  api::JsonWriter json_{api::JsonWriter::kIndented};
  ServiceReading service_;
};

// Holds one virtual service at a time.
class YamlForm final : public TableForm {
 public:
  explicit YamlForm(const ClusterNames* names) : names_(names) {}

  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    api::YamlWriter head;
    head.object([&] {
      head.member("connectionTableSize", info.connection_table_size);
      head.member("version", version_text(info));
    });
    text += head.take();
  }
  void begin_service(std::string& /*text*/, const ServiceReading& service) override {
    service_ = service;
    yaml_.emplace();
    yaml_->open_list();
    begin_virtual_service(*yaml_, service, names_);
  }
  void server(std::string& /*text*/, const ServiceReading& service,
              const ServerReading& server) override {
    write_server(*yaml_, service, server, names_);
  }
  void end_service(std::string& text) override {
    end_virtual_service(*yaml_, service_, names_);
    yaml_->close();
    if (std::exchange(empty_, false)) text += "virtualServices:\n";
    text += yaml_->take();
  }
  void end(std::string& text) override {
    if (empty_) text += "virtualServices: []\n";
  }

 private:
  const ClusterNames* names_;
  std::optional<api::YamlWriter> yaml_;
  ServiceReading service_;
  bool empty_ = true;
};

}  // namespace

void write_virtual_service(api::DocumentWriter& out, const ServiceReading& service,
                           std::span<const ServerReading> servers, const ClusterNames* names) {
  begin_virtual_service(out, service, names);
  for (const auto& server : servers) write_server(out, service, server, names);
  end_virtual_service(out, service, names);
}

std::unique_ptr<TableForm> json_form(const ClusterNames* names) {
  return std::make_unique<JsonForm>(names);
}

std::unique_ptr<TableForm> yaml_form(const ClusterNames* names) {
  return std::make_unique<YamlForm>(names);
}

}  // namespace ipvsproxier::ctl

#include <utility>

#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/listing/entry_text.h"
#include "cmd/ipvsctl/listing/table_form.h"
#include "proxier/api/yaml_writer.h"
#include "proxier/inspect/json_text.h"

namespace ipvsproxier::ctl {

using netlink::IpvsTraffic;
using netlink::ServerReading;
using netlink::ServiceReading;

namespace {

void add_traffic(inspect::JsonText& object, const IpvsTraffic& traffic) {
  object.open("traffic", '{');
  object.add("bytesIn", traffic.bytes_in);
  object.add("bytesInPerSecond", traffic.byte_rate_in);
  object.add("bytesOut", traffic.bytes_out);
  object.add("bytesOutPerSecond", traffic.byte_rate_out);
  object.add("connections", traffic.connections);
  object.add("connectionsPerSecond", traffic.connection_rate);
  object.add("packetsIn", traffic.packets_in);
  object.add("packetsInPerSecond", traffic.packet_rate_in);
  object.add("packetsOut", traffic.packets_out);
  object.add("packetsOutPerSecond", traffic.packet_rate_out);
  object.close();
}

// The members before the servers, in the order of their keys.
void add_service_head(inspect::JsonText& object, const ServiceReading& reading) {
  const auto& service = reading.service;
  const auto& key = service.key;
  if (key.fwmark == 0) object.add("address", key.address.to_string());
  object.add("family", to_string(key.address.family()));
  if (key.fwmark != 0) object.add("fwmark", key.fwmark);
  object.add("onePacket", (service.flags & netlink::kOnePacket) != 0);
  if (!service.persistence_engine.empty())
    object.add("persistenceEngine", service.persistence_engine.view());
  if ((service.flags & netlink::kPersistent) != 0) {
    if (const auto mask = netmask_text(reading); !mask.empty())
      object.add("persistenceNetmask", mask);
    object.add("persistenceTimeoutSeconds", service.timeout);
  }
  if (key.fwmark == 0) {
    object.add("port", key.port);
    object.add("protocol", to_string(key.protocol));
  }
}

void add_name(inspect::JsonText& object, const VirtualName& name) {
  object.open("service", '{');
  object.add("facet", plan::to_string(name.facet));
  object.add("name", name.service);
  object.add("namespace", name.ns);
  object.add("port", name.port);
  object.close();
}

void add_service_tail(inspect::JsonText& object, const ServiceReading& reading,
                      const std::optional<VirtualName>& name) {
  object.add("scheduler", reading.service.scheduler.view());
  if (has_scheduler_flags(reading.service))
    object.add("schedulerFlags", scheduler_flags(reading.service));
  if (name) add_name(object, *name);
  add_traffic(object, reading.traffic);
}

void add_endpoint(inspect::JsonText& object, const ServerName& name) {
  object.open("endpoint", '{');
  if (!name.node.empty()) object.add("node", name.node);
  if (!name.pod.empty()) object.add("pod", name.pod);
  object.add("ready", name.ready);
  object.add("serving", name.serving);
  object.add("terminating", name.terminating);
  if (!name.zone.empty()) object.add("zone", name.zone);
  object.close();
}

void add_server(inspect::JsonText& list, const ServerReading& reading,
                const std::optional<ServerName>& name) {
  const auto& [server, active, inactive, persistent] = reading.listed;
  list.open('{');
  list.add("activeConnections", active);
  list.add("address", server.key.address.to_string());
  if (name) add_endpoint(list, *name);
  list.add("forward", method_word(server.method));
  list.add("inactiveConnections", inactive);
  list.add("lowerThreshold", server.lower_threshold);
  list.add("persistentConnections", persistent);
  list.add("port", server.key.port);
  add_traffic(list, reading.traffic);
  if (const auto tunnel = tunnel_text(server); !tunnel.empty()) list.add("tunnel", tunnel);
  list.add("upperThreshold", server.upper_threshold);
  list.add("weight", server.weight);
  list.close();
}

// Written directly as text, with sorted keys: there may be very many virtual services.
class JsonForm final : public TableForm {
 public:
  explicit JsonForm(const ClusterNames* names) : names_(names) {}

  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    json_.write_to(text);
    json_.open('{');
    json_.add("connectionTableSize", info.connection_table_size);
    json_.add("version", version_text(info));
    json_.open("virtualServices", '[');
  }
  void begin_service(std::string& text, const ServiceReading& service) override {
    json_.write_to(text);
    service_ = service;
    json_.open('{');
    add_service_head(json_, service);
    json_.open("realServers", '[');
  }
  void server(std::string& text, const ServiceReading& service,
              const ServerReading& server) override {
    json_.write_to(text);
    add_server(json_, server,
               names_ != nullptr ? names_->of(service.service.key, server.listed.server.key)
                                 : std::nullopt);
  }
  void end_service(std::string& text) override {
    json_.write_to(text);
    json_.close();
    add_service_tail(json_, service_,
                     names_ != nullptr ? names_->of(service_.service.key) : std::nullopt);
    json_.close();
  }
  void end(std::string& text) override {
    json_.write_to(text);
    json_.close();
    json_.close();
    text += '\n';
  }

 private:
  const ClusterNames* names_;
  inspect::JsonText json_;
  ServiceReading service_;
};

// Converts the JSON of each virtual service to YAML.
class YamlForm final : public TableForm {
 public:
  explicit YamlForm(const ClusterNames* names) : json_(names) {}

  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    json_.begin(head_, info);
    text += api::write_yaml(
        {{"version", version_text(info)}, {"connectionTableSize", info.connection_table_size}});
  }
  void begin_service(std::string& /*text*/, const ServiceReading& service) override {
    service_.clear();
    json_.begin_service(service_, service);
  }
  void server(std::string& /*text*/, const ServiceReading& service,
              const ServerReading& server) override {
    json_.server(service_, service, server);
  }
  void end_service(std::string& text) override {
    json_.end_service(service_);
    if (std::exchange(empty_, false)) text += "virtualServices:\n";
    // without the comma in front
    text += api::write_yaml(
        nlohmann::json::array({nlohmann::json::parse(service_.substr(service_.find('{')))}));
  }
  void end(std::string& text) override {
    if (empty_) text += api::write_yaml({{"virtualServices", nlohmann::json::array()}});
  }

 private:
  JsonForm json_;
  std::string head_;
  std::string service_;
  bool empty_ = true;
};

}  // namespace

std::unique_ptr<TableForm> json_form(const ClusterNames* names) {
  return std::make_unique<JsonForm>(names);
}

std::unique_ptr<TableForm> yaml_form(const ClusterNames* names) {
  return std::make_unique<YamlForm>(names);
}

}  // namespace ipvsproxier::ctl

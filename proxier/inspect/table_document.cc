#include <nlohmann/json.hpp>

#include "proxier/api/yaml_writer.h"
#include "proxier/inspect/entry_words.h"
#include "proxier/inspect/table_form.h"

namespace ipvsproxier::inspect {

using netlink::IpvsTraffic;
using netlink::ServerReading;
using netlink::ServiceReading;
using nlohmann::json;

namespace {

json traffic_document(const IpvsTraffic& traffic) {
  return {{"connections", traffic.connections},
          {"packetsIn", traffic.packets_in},
          {"packetsOut", traffic.packets_out},
          {"bytesIn", traffic.bytes_in},
          {"bytesOut", traffic.bytes_out},
          {"connectionsPerSecond", traffic.connection_rate},
          {"packetsInPerSecond", traffic.packet_rate_in},
          {"packetsOutPerSecond", traffic.packet_rate_out},
          {"bytesInPerSecond", traffic.byte_rate_in},
          {"bytesOutPerSecond", traffic.byte_rate_out}};
}

json service_document(const ServiceReading& reading) {
  const auto& service = reading.service;
  const auto& key = service.key;
  json document{{"family", to_string(key.address.family())},
                {"scheduler", service.scheduler.view()},
                {"onePacket", (service.flags & netlink::kOnePacket) != 0},
                {"traffic", traffic_document(reading.traffic)},
                {"realServers", json::array()}};
  if (key.fwmark != 0) {
    document["fwmark"] = key.fwmark;
  } else {
    document["protocol"] = to_string(key.protocol);
    document["address"] = key.address.to_string();
    document["port"] = key.port;
  }
  if (has_scheduler_flags(service)) document["schedulerFlags"] = scheduler_flags(service);
  if ((service.flags & netlink::kPersistent) != 0) {
    document["persistenceTimeoutSeconds"] = service.timeout;
    if (const auto mask = netmask_text(reading); !mask.empty())
      document["persistenceNetmask"] = mask;
  }
  if (!service.persistence_engine.empty())
    document["persistenceEngine"] = service.persistence_engine.view();
  return document;
}

json server_document(const ServerReading& reading) {
  const auto& [server, active, inactive, persistent] = reading.listed;
  json document{{"address", server.key.address.to_string()},
                {"port", server.key.port},
                {"forward", method_word(server.method)},
                {"weight", server.weight},
                {"upperThreshold", server.upper_threshold},
                {"lowerThreshold", server.lower_threshold},
                {"activeConnections", active},
                {"inactiveConnections", inactive},
                {"persistentConnections", persistent},
                {"traffic", traffic_document(reading.traffic)}};
  if (const auto tunnel = tunnel_text(server); !tunnel.empty()) document["tunnel"] = tunnel;
  return document;
}

// Holds one virtual service with its servers at a time.
class DocumentForm : public TableForm {
 public:
  void begin_service(std::string& /*text*/, const ServiceReading& service) override {
    service_ = service_document(service);
  }
  void server(std::string& /*text*/, const ServiceReading& /*service*/,
              const ServerReading& server) override {
    service_["realServers"].push_back(server_document(server));
  }
  void end_service(std::string& text) override {
    append(text, service_, first_);
    first_ = false;
  }

 protected:
  virtual void append(std::string& text, const json& service, bool first) = 0;
  bool empty() const { return first_; }

 private:
  json service_;
  bool first_ = true;
};

class JsonForm final : public DocumentForm {
 public:
  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    text += "{\n  \"version\": " + json(version_text(info)).dump() +
            ",\n  \"connectionTableSize\": " + json(info.connection_table_size).dump() +
            ",\n  \"virtualServices\": [";
  }
  void end(std::string& text) override { text += empty() ? "]\n}\n" : "\n  ]\n}\n"; }

 protected:
  void append(std::string& text, const json& service, bool first) override {
    constexpr int kIndent = 2;
    text += first ? "\n    " : ",\n    ";
    for (const char c : service.dump(kIndent)) {
      text += c;
      if (c == '\n') text += "    ";
    }
  }
};

class YamlForm final : public DocumentForm {
 public:
  void begin(std::string& text, const netlink::IpvsInfo& info) override {
    text += api::write_yaml(
        {{"version", version_text(info)}, {"connectionTableSize", info.connection_table_size}});
  }
  void end(std::string& text) override {
    if (empty()) text += api::write_yaml({{"virtualServices", json::array()}});
  }

 protected:
  void append(std::string& text, const json& service, bool first) override {
    if (first) text += "virtualServices:\n";
    text += api::write_yaml(json::array({service}));
  }
};

}  // namespace

std::unique_ptr<TableForm> json_form() {
  return std::make_unique<JsonForm>();
}

std::unique_ptr<TableForm> yaml_form() {
  return std::make_unique<YamlForm>();
}

}  // namespace ipvsproxier::inspect

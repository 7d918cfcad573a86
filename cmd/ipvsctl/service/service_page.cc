#include "cmd/ipvsctl/service/service_page.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"

namespace ipvsproxier::ctl {

namespace {

using Json = nlohmann::json;

const Json& member(const Json& document, const char* key) {
  static const Json kNone;
  const auto it = document.find(key);
  return it == document.end() ? kNone : *it;
}

std::string text_of(const Json& document, const char* key) {
  const auto& value = member(document, key);
  return value.is_string() ? value.get<std::string>()
         : value.is_null() ? ""
                           : api::to_json_text(value);
}

std::string joined(const Json& list) {
  std::string text;
  for (const auto& one : list)
    text += (text.empty() ? "" : ", ") +
            (one.is_string() ? one.get<std::string>() : api::to_json_text(one));
  return text;
}

std::string address_of(const Json& end) {
  const auto address = text_of(end, "address");
  const bool is_v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "",
                     text_of(end, "port"));
}

// "3.2 s", "5 min 2 s"
std::string duration(double milliseconds) {
  constexpr double kSecond = 1000;
  constexpr double kMinute = 60 * kSecond;
  if (milliseconds < kSecond) return fmt::format("{:.1f} ms", milliseconds);
  if (milliseconds < kMinute) return fmt::format("{:.1f} s", milliseconds / kSecond);
  const auto seconds = static_cast<long>(milliseconds / kSecond);
  return fmt::format("{} min {} s", seconds / 60, seconds % 60);
}

class Page {
 public:
  explicit Page(const Json& document) : document_(document) {}

  std::string text() {
    add_spec();
    for (const auto& port : member(document_, "ports")) add_port(port);
    add_virtuals();
    add_refused();
    add_draining();
    add_memberships();
    if (document_.contains("lastChange")) add_last_change();
    for (const auto& what : member(document_, "unknown"))
      text_ += fmt::format("\nNot known: {}.\n", what.get<std::string>());
    return text_;
  }

 private:
  void line(const char* name, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("{:<24}{}\n", name, value);
  }

  void add_spec() {
    const auto& service = member(document_, "service");
    if (!service.is_object()) {
      line("Address", text_of(document_, "address"));
      return;
    }
    const auto& metadata = member(service, "metadata");
    const auto& spec = member(service, "spec");
    line("Service", text_of(metadata, "namespace") + "/" + text_of(metadata, "name"));
    line("Created", text_of(metadata, "creationTimestamp"));
    line("Type", text_of(spec, "type"));
    line("Cluster IPs", joined(member(spec, "clusterIPs")));
    line("External IPs", joined(member(spec, "externalIPs")));
    std::string balancers;
    for (const auto& one : member(member(member(service, "status"), "loadBalancer"), "ingress"))
      balancers += (balancers.empty() ? "" : ", ") + text_of(one, "ip");
    line("Load balancers", balancers);
    line("Source ranges", joined(member(spec, "loadBalancerSourceRanges")));
    line("Internal policy", text_of(spec, "internalTrafficPolicy"));
    line("External policy", text_of(spec, "externalTrafficPolicy"));
    if (text_of(spec, "sessionAffinity") == "ClientIP")
      line(
          "Session affinity",
          "client IP, " +
              text_of(member(member(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds") +
              " s");
    line("Health check node port", text_of(spec, "healthCheckNodePort"));
    if (member(document_, "ports").empty())
      text_ += "\nIt has nothing to proxy here: no cluster IP of a family of this node.\n";
  }

  void add_port(const Json& port) {
    text_ += fmt::format("\nPort {}/{}{}, {}\n", text_of(port, "port"), text_of(port, "protocol"),
                         text_of(port, "name").empty() ? "" : " " + text_of(port, "name"),
                         text_of(port, "family"));
    for (const auto& facet : member(port, "virtual"))
      text_ += fmt::format("  {:<46} {}{}\n", address_of(facet), text_of(facet, "facet"),
                           facet.value("held", false)
                               ? ""
                               : "; not programmed, " + text_of(facet, "holder") + " has it");
    const auto& internal = member(port, "internal");
    const auto& external = member(port, "external");
    const bool differ = external.is_object() && external != internal;
    add_endpoints(internal, differ ? "Endpoints of internal traffic" : "Endpoints");
    if (differ) add_endpoints(external, "Endpoints of external traffic");
  }

  void add_endpoints(const Json& traffic, const char* title) {
    const auto& endpoints = member(traffic, "endpoints");
    const bool wide = text_of(traffic, "policy") == "Local" && !traffic.value("byLocal", true);
    text_ += fmt::format("  {}{}{}\n", title, endpoints.empty() ? ": none" : "",
                         wide ? " (policy Local, but none is on this node: Cluster)" : "");
    for (const auto& endpoint : endpoints) {
      text_ += fmt::format("  {} {:<44} {}{}", endpoint.value("gets", false) ? '+' : '-',
                           address_of(endpoint), text_of(endpoint, "use"),
                           endpoint.value("local", false) ? ", on this node" : "");
      add_whereabouts(member(endpoint, "endpoint"));
    }
  }

  // Adds pod, node and zone, and ends the line.
  void add_whereabouts(const Json& server) {
    for (const char* key : {"pod", "node", "zone"})
      if (const auto text = text_of(server, key); !text.empty())
        text_ += fmt::format("  {} {}", key, text);
    text_ += '\n';
  }

  void add_virtuals() {
    for (const auto& one : member(document_, "virtualServices")) {
      text_ += fmt::format("\nVirtual service {}/{}", address_of(one), text_of(one, "protocol"));
      if (const auto facet = text_of(member(one, "service"), "facet"); !facet.empty())
        text_ += ", " + facet;
      if (!one.value("inKernel", true)) {
        text_ += ": NOT IN THE KERNEL\n";
        continue;
      }
      text_ += fmt::format(", {}\n", text_of(one, "scheduler"));
      add_traffic(one, "  ");
      if (member(one, "realServers").empty())
        text_ += "  no real server: new connections are refused\n";
      for (const auto& server : member(one, "realServers")) {
        text_ += fmt::format("  -> {:<43} weight {}, {} active, {} inactive", address_of(server),
                             text_of(server, "weight"), text_of(server, "activeConnections"),
                             text_of(server, "inactiveConnections"));
        add_whereabouts(member(server, "endpoint"));
        add_traffic(server, "     ");
      }
    }
  }

  void add_traffic(const Json& one, const char* indent) {
    const auto& traffic = member(one, "traffic");
    if (!traffic.is_object() || traffic.value("connections", 0ULL) == 0) return;
    text_ +=
        fmt::format("{}{} connections so far; now {}/s, {} and {} B/s in and out\n", indent,
                    text_of(traffic, "connections"), text_of(traffic, "connectionsPerSecond"),
                    text_of(traffic, "bytesInPerSecond"), text_of(traffic, "bytesOutPerSecond"));
  }

  void add_refused() {
    const auto& refused = member(document_, "refused");
    if (!refused.empty()) text_ += "\nThe kernel refuses\n";
    for (const auto& one : refused) text_ += "  " + one.get<std::string>() + "\n";
  }

  void add_draining() {
    const auto& draining = member(document_, "draining");
    if (!draining.empty()) text_ += "\nDraining (weight 0, until its connections are gone)\n";
    for (const auto& one : draining)
      text_ += fmt::format("  {} -> {}  for {}{}\n", text_of(one, "service"),
                           text_of(one, "server"), duration(one.value("forMilliseconds", 0.0)),
                           one.contains("leftMilliseconds")
                               ? ", " + duration(one.value("leftMilliseconds", 0.0)) + " left"
                               : ", as long as they last");
  }

  void add_memberships() {
    std::map<std::string, std::vector<std::string>> sets;
    for (const auto& one : member(document_, "elements"))
      sets[text_of(one, "set")].push_back(
          text_of(one, "element") + (one.value("inKernel", true) ? "" : "  NOT IN THE KERNEL"));
    for (const auto& [set, elements] : sets) {
      text_ += fmt::format("\nSet {}\n", set);
      for (const auto& element : elements) text_ += "  " + element + "\n";
      for (const auto& rule : member(document_, "rules"))
        if (text_of(rule, "set") == set)
          text_ +=
              fmt::format("  asked by {} {} {}: {}\n", text_of(rule, "family"),
                          text_of(rule, "table"), text_of(rule, "chain"), text_of(rule, "rule"));
    }
  }

  void add_last_change() {
    const auto& change = member(document_, "lastChange");
    text_ += "\nLast change  ";
    text_ += change.is_object() ? fmt::format("{}, programmed in {}\n", text_of(change, "when"),
                                              duration(change.value("tookMilliseconds", 0.0)))
                                : "long ago: it is not among the last that the daemon remembers\n";
  }

  const Json& document_;
  std::string text_;
};

}  // namespace

std::string service_page(const Json& document) {
  const auto shown = api::visible_texts(document);
  return Page(shown).text();
}

}  // namespace ipvsproxier::ctl

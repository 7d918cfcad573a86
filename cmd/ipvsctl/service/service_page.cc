#include "cmd/ipvsctl/service/service_page.h"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cmd/ipvsctl/listing/table_form.h"
#include "proxier/api/timestamp.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::ctl {

namespace {

using api::visible;

// "3.2 s", "5 min 2 s"
std::string duration(double milliseconds) {
  constexpr double kSecond = 1000;
  constexpr double kMinute = 60 * kSecond;
  if (milliseconds < kSecond) return fmt::format("{:.1f} ms", milliseconds);
  if (milliseconds < kMinute) return fmt::format("{:.1f} s", milliseconds / kSecond);
  const auto seconds = static_cast<long>(milliseconds / kSecond);
  return fmt::format("{} min {} s", seconds / 60, seconds % 60);
}

template <typename Values>
std::string joined(const Values& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + value.to_string();
  return text;
}

// Texts of the cluster and of other programs are made visible where they are added.
class PageText {
 public:
  explicit PageText(const NodePage& page) : page_(page), facts_(page.facts) {}

  std::string text() {
    const auto& decisions = facts_.decisions;
    if (decisions)
      add_spec(*decisions);
    else
      line("Address", facts_.address);
    if (decisions)
      for (const auto& port : decisions->ports) add_port(port);
    if (page_.virtuals)
      for (const auto& one : *page_.virtuals) add_virtual(one);
    if (decisions) add_troubles(*decisions);
    add_memberships();
    if (decisions) add_last_change(decisions->last_change);
    if (facts_.node)
      for (const auto& what : facts_.node->unknown)
        text_ += fmt::format("\nNot known: {}.\n", visible(what));
    return text_;
  }

 private:
  void line(const char* name, std::string_view value) {
    if (!value.empty()) text_ += fmt::format("{:<24}{}\n", name, visible(value));
  }

  void add_spec(const inspect::PageDecisions& decisions) {
    const auto& service = decisions.service;
    const auto policy = [](bool local) { return local ? "Local" : "Cluster"; };
    line("Service", api::to_string(service.name));
    if (service.creation_time) line("Created", api::to_rfc3339(*service.creation_time));
    line("Type", api::to_string(service.type));
    line("Cluster IPs", service.headless ? "None" : joined(service.cluster_ips));
    line("External IPs", joined(service.external_ips));
    line("Load balancers", joined(service.load_balancer_ips));
    line("Source ranges", joined(service.source_ranges));
    line("Internal policy", policy(service.internal_policy_local));
    line("External policy", policy(service.external_policy_local));
    if (service.affinity_seconds)
      line("Session affinity", fmt::format("client IP, {} s", *service.affinity_seconds));
    if (service.health_check_node_port != 0)
      line("Health check node port", std::to_string(service.health_check_node_port));
    add_annotations(decisions.annotations);
    if (decisions.ports.empty())
      text_ += "\nIt has nothing to proxy here: no cluster IP of a family of this node.\n";
  }

  void add_annotations(const std::vector<inspect::PageAnnotation>& annotations) {
    if (!annotations.empty()) text_ += "\nAnnotations\n";
    for (const auto& one : annotations) {
      text_ += fmt::format("  {}: {}\n", visible(one.key), visible(one.value));
      if (!one.remark.empty()) text_ += fmt::format("    no effect: {}\n", visible(one.remark));
    }
  }

  void add_port(const inspect::PagePort& port) {
    text_ += fmt::format("\nPort {}/{}{}, {}\n", port.port, to_string(port.protocol),
                         port.name.empty() ? "" : " " + visible(port.name), to_string(port.family));
    for (const auto& facet : port.facets)
      text_ += fmt::format(
          "  {:<46} {}{}\n", netlink::to_string(facet.address, facet.port), visible(facet.facet),
          facet.held ? "" : "; not programmed: " + visible(facet.holder) + " has it");
    const bool differ = port.external && *port.external != port.internal;
    add_endpoints(port.internal, differ ? "Endpoints of internal traffic" : "Endpoints");
    if (differ) add_endpoints(*port.external, "Endpoints of external traffic");
    if (port.in_cluster) add_endpoints(*port.in_cluster, "Endpoints of clients within the cluster");
    add_reach(port.reach);
  }

  void add_reach(const std::vector<inspect::PageReach>& reach) {
    if (!reach.empty())
      text_ += "  Who is served within the source ranges, and which source the pod sees\n";
    for (const auto& one : reach) {
      text_ += fmt::format("    {:<22} {:<22} {}", visible(one.client),
                           one.at_node_port ? "at the node port" : "at external addresses",
                           visible(one.outcome));
      if (one.here + one.elsewhere != 0)
        text_ += fmt::format(", {} here and {} elsewhere, which see {}", one.here, one.elsewhere,
                             one.keeps_source ? "the client" : "an address of this node");
      text_ += '\n';
    }
  }

  void add_endpoints(const inspect::PageTraffic& traffic, const char* title) {
    const bool wide = traffic.local_only && !traffic.by_local;
    text_ +=
        fmt::format("  {}{}{}{}\n", title, traffic.endpoints.empty() ? ": none" : "",
                    wide ? " (policy Local, but none is on this node: Cluster)" : "",
                    traffic.drops ? " (from outside it is dropped: none is on this node)" : "");
    for (const auto& endpoint : traffic.endpoints) {
      text_ += fmt::format("  {} {:<44} {}{}", endpoint.gets ? '+' : '-',
                           netlink::to_string(endpoint.address, endpoint.port),
                           visible(endpoint.use), endpoint.local ? ", on this node" : "");
      if (endpoint.gets && (endpoint.weight != 1 || !endpoint.weight_why.empty()))
        text_ += fmt::format(", weight {} {}", endpoint.weight, visible(endpoint.weight_why));
      const auto where = endpoint.whereabouts.value_or(inspect::PageWhereabouts());
      end_line(where.pod, where.node, where.zone);
    }
  }

  void end_line(std::string_view pod, std::string_view node, std::string_view zone) {
    for (const auto& [key, value] :
         {std::pair("pod", pod), std::pair("node", node), std::pair("zone", zone)})
      if (!value.empty()) text_ += fmt::format("  {} {}", key, visible(value));
    text_ += '\n';
  }

  void add_virtual(const PageVirtual& one) {
    text_ += "\nVirtual service " + to_string(one.key);
    if (const auto name = page_.names ? page_.names->of(one.key) : std::nullopt)
      text_ += fmt::format(", {}", ipset::to_string(name->facet));
    if (!one.reading) {
      text_ += ": NOT IN THE KERNEL\n";
      return;
    }
    text_ += fmt::format(", {}\n", one.reading->service.scheduler.view());
    add_traffic(one.reading->traffic, "  ");
    if (one.servers.empty()) text_ += "  no real server: " + fate_without_server(one.key) + "\n";
    for (const auto& server : one.servers) add_server(one.key, server);
  }

  // Policy Local drops what comes from outside, so that clients try again elsewhere.
  std::string fate_without_server(const netlink::VirtualServiceKey& service) const {
    if (facts_.decisions)
      for (const auto& port : facts_.decisions->ports)
        for (const auto& facet : port.facets)
          if (facet.held && port.protocol == service.protocol && facet.address == service.address &&
              facet.port == service.port && traffic_to(port, facet.facet).drops)
            return "new connections from outside are dropped, and clients within the cluster are "
                   "sent to another virtual service of this Service";
    return "new connections are refused";
  }

  void add_server(const netlink::VirtualServiceKey& service,
                  const netlink::ServerReading& reading) {
    const auto& listed = reading.listed;
    text_ +=
        fmt::format("  -> {:<43} weight {}{}, {} active, {} inactive", to_string(listed.server.key),
                    listed.server.weight, why(service, listed.server), listed.active_connections,
                    listed.inactive_connections);
    if (listed.server.upper_threshold != 0)
      text_ += fmt::format(", at most {}", listed.server.upper_threshold);
    const auto found = page_.names ? page_.names->of(service, listed.server.key) : std::nullopt;
    const auto name = found.value_or(ServerName());
    end_line(name.pod, name.node, name.zone);
    add_traffic(reading.traffic, "     ");
  }

  // Why it has the weight that it has: " (draining)"; "" if it is that of all.
  std::string why(const netlink::VirtualServiceKey& service,
                  const netlink::RealServer& server) const {
    if (!facts_.decisions) return "";
    for (const auto& one : facts_.decisions->draining)
      if (one.service == to_string(service) && one.server == to_string(server.key))
        return " (draining)";
    const auto* endpoint = endpoint_of(service, server.key);
    if (endpoint == nullptr) return server.weight == 0 ? " (no endpoint of it)" : "";
    if (endpoint->weight != server.weight) return fmt::format(" (planned: {})", endpoint->weight);
    return endpoint->weight_why.empty() ? "" : fmt::format(" ({})", visible(endpoint->weight_why));
  }

  static const inspect::PageTraffic& traffic_to(const inspect::PagePort& port,
                                                std::string_view facet) {
    if (facet == ipset::to_string(plan::Facet::in_cluster) && port.in_cluster)
      return *port.in_cluster;
    const bool inside = facet == ipset::to_string(plan::Facet::cluster_ip);
    return inside || !port.external ? port.internal : *port.external;
  }

  const inspect::PageEndpoint* endpoint_of(const netlink::VirtualServiceKey& service,
                                           const netlink::RealServerKey& server) const {
    for (const auto& port : facts_.decisions->ports)
      for (const auto& facet : port.facets) {
        if (port.protocol != service.protocol || facet.address != service.address ||
            facet.port != service.port)
          continue;
        const auto& traffic = traffic_to(port, facet.facet);
        for (const auto& endpoint : traffic.endpoints)
          if (endpoint.address == server.address && endpoint.port == server.port) return &endpoint;
      }
    return nullptr;
  }

  void add_traffic(const netlink::IpvsTraffic& traffic, const char* indent) {
    if (traffic.connections == 0) return;
    text_ += fmt::format("{}{} connections so far; now {}/s, {} and {} B/s in and out\n", indent,
                         traffic.connections, traffic.connection_rate, traffic.byte_rate_in,
                         traffic.byte_rate_out);
  }

  // What the kernel refuses, and what drains.
  void add_troubles(const inspect::PageDecisions& decisions) {
    if (!decisions.refused.empty()) text_ += "\nThe kernel refuses\n";
    for (const auto& one : decisions.refused) text_ += "  " + visible(one) + "\n";
    if (!decisions.draining.empty())
      text_ += "\nDraining (weight 0, until its connections are gone)\n";
    for (const auto& one : decisions.draining)
      text_ +=
          fmt::format("  {} -> {}  for {}{}\n", visible(one.service), visible(one.server),
                      duration(static_cast<double>(one.for_ms)),
                      one.left_ms ? ", " + duration(static_cast<double>(*one.left_ms)) + " left"
                                  : ", as long as they last");
  }

  void add_memberships() {
    std::map<std::string, std::vector<std::string>> sets;
    for (const auto& one : facts_.elements)
      sets[one.set].push_back(visible(one.element) +
                              (one.in_kernel.value_or(true) ? "" : "  NOT IN THE KERNEL"));
    for (const auto& [set, elements] : sets) {
      text_ += fmt::format("\nSet {}\n", visible(set));
      for (const auto& element : elements) text_ += "  " + element + "\n";
      if (!facts_.node) continue;
      for (const auto& rule : facts_.node->rules)
        if (rule.set == set)
          text_ += fmt::format("  asked by {} {} {}: {}\n", visible(rule.family),
                               visible(rule.table), visible(rule.chain), visible(rule.rule));
    }
  }

  void add_last_change(const std::optional<inspect::PageChange>& change) {
    text_ += "\nLast change  ";
    text_ += change ? fmt::format("{}, programmed in {}\n", visible(change->when),
                                  duration(change->took_ms))
                    : "long ago: it is not among the last that the daemon remembers\n";
  }

  const NodePage& page_;
  const inspect::ServicePage& facts_;
  std::string text_;
};

void write_absent(api::DocumentWriter& out, const PageVirtual& one,
                  const std::optional<ClusterNames>& names) {
  out.object([&] {
    out.member("address", one.key.address.to_string());
    out.member("inKernel", false);
    out.member("port", one.key.port);
    out.member("protocol", to_string(one.key.protocol));
    if (const auto name = names ? names->of(one.key) : std::nullopt)
      out.object("service", [&] { out.member("facet", ipset::to_string(name->facet)); });
  });
}

}  // namespace

std::string page_text(const NodePage& page) {
  return PageText(page).text();
}

void write_page(api::DocumentWriter& out, const NodePage& page) {
  out.object([&] {
    inspect::write_members(out, page.facts);
    if (!page.virtuals) return;
    out.list("virtualServices", *page.virtuals, [&](const PageVirtual& one) {
      if (one.reading)
        write_virtual_service(out, *one.reading, one.servers, page.names ? &*page.names : nullptr);
      else
        write_absent(out, one, page.names);
    });
  });
}

}  // namespace ipvsproxier::ctl

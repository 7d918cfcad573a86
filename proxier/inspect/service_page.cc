#include "proxier/inspect/service_page.h"

#include <limits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "proxier/api/annotations.h"
#include "proxier/api/decode.h"
#include "proxier/api/fields.h"
#include "proxier/api/object_json.h"
#include "proxier/plan/service_report.h"

namespace ipvsproxier::inspect {

using api::DocumentWriter;
using api::Fields;

namespace {

// --- made by the daemon

PageTraffic traffic_of(const plan::TrafficReport& report) {
  PageTraffic traffic{.local_only = report.local_only,
                      .by_local = report.by_local,
                      .outside_only = report.outside_only,
                      .drops = report.drops,
                      .endpoints = {}};
  for (const auto& [endpoint, use, weight, asked] : report.endpoints) {
    const auto why = weight.weight == asked
                         ? std::string(weight.why)
                         : fmt::format("{}: {}, scaled down, as wrr has a limit of connections",
                                       weight.why, asked);
    traffic.endpoints.push_back(
        {.address = endpoint.key.address,
         .port = endpoint.key.port,
         .local = endpoint.local,
         .gets = use == plan::EndpointUse::used || use == plan::EndpointUse::last_resort,
         .use = std::string(plan::to_string(use)),
         .weight = weight.weight,
         .weight_why = why,
         .whereabouts = {}});
  }
  return traffic;
}

std::string holder_of(const plan::FacetReport& facet) {
  if (facet.foreign) return "another program's virtual service " + to_string(*facet.foreign);
  if (!facet.link.empty()) return "the program of link " + facet.link;
  return api::to_string(facet.holder);
}

PagePort port_of(const plan::PortReport& report) {
  PagePort port{.family = report.port.cluster_ip.family(),
                .name = report.port.name.port,
                .protocol = report.port.name.protocol,
                .port = report.port.port,
                .facets = {},
                .internal = traffic_of(report.internal),
                .external = {}};
  for (const auto& facet : report.facets)
    port.facets.push_back({.address = facet.claim.key.address,
                           .port = facet.claim.key.port,
                           .facet = std::string(ipset::to_string(facet.claim.facet)),
                           .held = facet.held,
                           .holder = holder_of(facet)});
  if (report.external) port.external = traffic_of(*report.external);
  if (report.in_cluster) port.in_cluster = traffic_of(*report.in_cluster);
  for (const auto& one : report.reach)
    port.reach.push_back({.client = std::string(plan::to_string(one.client)),
                          .outcome = std::string(plan::to_string(one.outcome)),
                          .at_node_port = one.at_node_port,
                          .here = one.here,
                          .elsewhere = one.elsewhere,
                          .keeps_source = one.keeps_source});
  return port;
}

// Each with the problem, or the note, that it has.
std::vector<PageAnnotation> annotations_of(const api::Service& service,
                                           const plan::Planner& planner,
                                           const model::ClusterState& cluster) {
  const auto [settings, problems] = planner.settings_of(service.name, cluster);
  std::vector<PageAnnotation> annotations;
  for (const auto& [key, value] : service.annotations) {
    PageAnnotation annotation{.key = key, .value = value, .remark = {}};
    for (const auto& problem : problems)
      if (problem.field == model::annotation_field(key)) annotation.remark = problem.message;
    for (const auto& note : settings.notes)
      if (note.starts_with(key + ": ")) annotation.remark = note.substr(key.size() + 2);
    if (!planner.options().differences.service_annotations)
      annotation.remark = "annotations do not count (--service-annotations=false)";
    annotations.push_back(std::move(annotation));
  }
  return annotations;
}

// --- written

void write_endpoint(DocumentWriter& out, const PageEndpoint& endpoint) {
  out.member("address", endpoint.address.to_string());
  if (const auto& where = endpoint.whereabouts)
    out.object("endpoint", [&] {
      if (!where->node.empty()) out.member("node", where->node);
      if (!where->pod.empty()) out.member("pod", where->pod);
      if (!where->zone.empty()) out.member("zone", where->zone);
    });
  out.member("gets", endpoint.gets);
  out.member("local", endpoint.local);
  out.member("port", endpoint.port);
  out.member("use", endpoint.use);
  out.member("weight", endpoint.weight);
  if (!endpoint.weight_why.empty()) out.member("weightWhy", endpoint.weight_why);
}

void write_traffic(DocumentWriter& out, std::string_view name, const PageTraffic& traffic) {
  out.object(name, [&] {
    out.member("byLocal", traffic.by_local);
    if (traffic.outside_only) out.member("drops", traffic.drops);
    out.list("endpoints", traffic.endpoints, [&](const PageEndpoint& endpoint) {
      out.object([&] { write_endpoint(out, endpoint); });
    });
    if (traffic.outside_only) out.member("outsideOnly", true);
    out.member("policy", traffic.local_only ? "Local" : "Cluster");
  });
}

void write_facet(DocumentWriter& out, const PageFacet& facet) {
  out.member("address", facet.address.to_string());
  out.member("facet", facet.facet);
  out.member("held", facet.held);
  out.member("holder", facet.holder);
  out.member("port", facet.port);
}

void write_reach(DocumentWriter& out, const PageReach& reach) {
  out.member("atNodePort", reach.at_node_port);
  out.member("client", reach.client);
  out.member("elsewhere", reach.elsewhere);
  out.member("here", reach.here);
  out.member("keepsSource", reach.keeps_source);
  out.member("outcome", reach.outcome);
}

void write_port(DocumentWriter& out, const PagePort& port) {
  if (port.external) write_traffic(out, "external", *port.external);
  out.member("family", to_string(port.family));
  if (port.in_cluster) write_traffic(out, "inCluster", *port.in_cluster);
  write_traffic(out, "internal", port.internal);
  out.member("name", port.name);
  out.member("port", port.port);
  out.member("protocol", to_string(port.protocol));
  if (!port.reach.empty())
    out.list("reach", port.reach,
             [&](const PageReach& reach) { out.object([&] { write_reach(out, reach); }); });
  out.list("virtual", port.facets,
           [&](const PageFacet& facet) { out.object([&] { write_facet(out, facet); }); });
}

void write_annotation(DocumentWriter& out, const PageAnnotation& annotation) {
  out.member("key", annotation.key);
  out.member("remark", annotation.remark);
  out.member("value", annotation.value);
}

void write_draining(DocumentWriter& out, const PageDraining& draining) {
  out.member("forMilliseconds", draining.for_ms);
  if (draining.left_ms) out.member("leftMilliseconds", *draining.left_ms);
  out.member("server", draining.server);
  out.member("service", draining.service);
}

void write_last_change(DocumentWriter& out, const std::optional<PageChange>& change) {
  out.key("lastChange");
  if (!change) return out.value(nullptr);
  out.object([&] {
    out.member("tookMilliseconds", change->took_ms);
    out.member("when", change->when);
  });
}

void write_element(DocumentWriter& out, const PageElement& element) {
  out.member("element", element.element);
  if (element.in_kernel) out.member("inKernel", *element.in_kernel);
  out.member("set", element.set);
}

void write_rule(DocumentWriter& out, const PageRule& rule) {
  out.member("chain", rule.chain);
  out.member("family", rule.family);
  out.member("rule", rule.rule);
  out.member("set", rule.set);
  out.member("table", rule.table);
}

// --- read by ipvsctl

// An address and a port; refused if they are none.
template <typename End>
void read_end(const Fields& fields, End& end) {
  const auto text = fields.text("address");
  const auto address = netlink::IpAddress::parse(text);
  if (!address) fields.refuse("address", "must be an address");
  end.address = address.value_or(netlink::IpAddress());
  end.port = static_cast<std::uint16_t>(
      fields.integer("port", 0, std::numeric_limits<std::uint16_t>::max()).value_or(0));
}

PageTraffic read_traffic(const Fields& fields) {
  PageTraffic traffic{.local_only = fields.text("policy") == "Local",
                      .by_local = fields.boolean("byLocal", true),
                      .outside_only = fields.boolean("outsideOnly", false),
                      .drops = fields.boolean("drops", false),
                      .endpoints = {}};
  fields.each_object("endpoints", [&](const Fields& entry) {
    PageEndpoint endpoint{.local = entry.boolean("local", false),
                          .gets = entry.boolean("gets", false)};
    read_end(entry, endpoint);
    endpoint.use = entry.text("use");
    endpoint.weight =
        static_cast<std::uint32_t>(entry.integer("weight", 0, api::kLargestWeight).value_or(1));
    endpoint.weight_why = entry.text("weightWhy");
    traffic.endpoints.push_back(std::move(endpoint));
  });
  return traffic;
}

PageReach read_reach(const Fields& fields) {
  const auto count = [&](std::string_view name) {
    const auto most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::uint64_t>(fields.integer(name, 0, most).value_or(0));
  };
  return {.client = fields.text("client"),
          .outcome = fields.text("outcome"),
          .at_node_port = fields.boolean("atNodePort", false),
          .here = count("here"),
          .elsewhere = count("elsewhere"),
          .keeps_source = fields.boolean("keepsSource", false)};
}

PagePort read_port(const Fields& fields) {
  PagePort port{.name = fields.text("name")};
  const auto family = fields.text("family");
  port.family =
      family == to_string(netlink::Family::ipv6) ? netlink::Family::ipv6 : netlink::Family::ipv4;
  const auto protocol = netlink::parse_protocol(fields.text("protocol"));
  if (!protocol) fields.refuse("protocol", "must be a protocol");
  port.protocol = protocol.value_or(netlink::Protocol::tcp);
  port.port = static_cast<std::uint16_t>(
      fields.integer("port", 0, std::numeric_limits<std::uint16_t>::max()).value_or(0));
  fields.each_object("virtual", [&](const Fields& entry) {
    PageFacet facet{.facet = entry.text("facet"),
                    .held = entry.boolean("held", false),
                    .holder = entry.text("holder")};
    read_end(entry, facet);
    port.facets.push_back(std::move(facet));
  });
  const Fields internal(fields, "internal");
  port.internal = read_traffic(internal);
  if (const Fields external(fields, "external"); external.exists())
    port.external = read_traffic(external);
  if (const Fields in_cluster(fields, "inCluster"); in_cluster.exists())
    port.in_cluster = read_traffic(in_cluster);
  fields.each_object("reach",
                     [&](const Fields& entry) { port.reach.push_back(read_reach(entry)); });
  return port;
}

std::optional<std::int64_t> read_milliseconds(const Fields& fields, std::string_view key) {
  return fields.integer(key, std::numeric_limits<std::int64_t>::min(),
                        std::numeric_limits<std::int64_t>::max());
}

PageDecisions read_decisions(const Fields& page) {
  PageDecisions decisions;
  page.each_object("annotations", [&](const Fields& entry) {
    decisions.annotations.push_back(
        {.key = entry.text("key"), .value = entry.text("value"), .remark = entry.text("remark")});
  });
  page.each_object("ports",
                   [&](const Fields& entry) { decisions.ports.push_back(read_port(entry)); });
  page.each_object("draining", [&](const Fields& entry) {
    decisions.draining.push_back({.service = entry.text("service"),
                                  .server = entry.text("server"),
                                  .for_ms = read_milliseconds(entry, "forMilliseconds").value_or(0),
                                  .left_ms = read_milliseconds(entry, "leftMilliseconds")});
  });
  decisions.refused = page.texts("refused").value_or(std::vector<std::string>());
  if (const Fields change(page, "lastChange"); change.exists())
    decisions.last_change =
        PageChange{.when = change.text("when"), .took_ms = change.number("tookMilliseconds", 0)};
  return decisions;
}

}  // namespace

std::optional<ServicePage> service_page(const api::NamespacedName& name,
                                        const model::ClusterState& cluster,
                                        const plan::Planner& planner) {
  const auto service = cluster.services.find(name);
  if (service == cluster.services.end()) return std::nullopt;
  ServicePage page;
  auto& decisions = page.decisions.emplace();
  decisions.service = service->second;
  decisions.annotations = annotations_of(service->second, planner, cluster);
  for (const auto& report : planner.report_of(name, cluster))
    decisions.ports.push_back(port_of(report));
  for (const auto& [set, elements] : planner.scope_of(name).elements)
    for (const auto& wanted : elements)
      for (const auto& element : ipset::one_by_one(wanted))
        page.elements.push_back({.set = ipset::set_name(set.id, set.family),
                                 .element = ipset::to_string(element),
                                 .in_kernel = {}});
  return page;
}

void write_members(DocumentWriter& out, const ServicePage& page) {
  const auto write_list = [&](std::string_view name, const auto& values, auto write_one) {
    out.list(name, values, [&](const auto& one) { out.object([&] { write_one(out, one); }); });
  };
  const auto& decisions = page.decisions;
  if (!page.address.empty()) out.member("address", page.address);
  if (decisions) write_list("annotations", decisions->annotations, write_annotation);
  if (decisions) write_list("draining", decisions->draining, write_draining);
  write_list("elements", page.elements, write_element);
  if (decisions) {
    write_last_change(out, decisions->last_change);
    write_list("ports", decisions->ports, write_port);
    out.member("refused", decisions->refused);
  }
  if (page.node) write_list("rules", page.node->rules, write_rule);
  if (decisions) {
    out.key("service");
    api::write_object(out, decisions->service);
  }
  if (page.node) out.member("unknown", page.node->unknown);
}

std::optional<ServicePage> read_service_page(const api::JsonValue& json) {
  api::Problems problems;
  api::Report report{.origin = "", .problems = problems};
  const Fields fields(json, report);
  const auto object = fields.find("service");
  auto decoded = object ? api::decode_object(*object, "", problems) : std::nullopt;
  auto* const service = decoded ? std::get_if<api::Service>(&*decoded) : nullptr;
  if (service == nullptr) return std::nullopt;
  ServicePage page;
  page.decisions = read_decisions(fields);
  page.decisions->service = std::move(*service);
  fields.each_object("elements", [&](const Fields& entry) {
    page.elements.push_back(
        {.set = entry.text("set"), .element = entry.text("element"), .in_kernel = {}});
  });
  if (report.refused) return std::nullopt;
  return page;
}

}  // namespace ipvsproxier::inspect

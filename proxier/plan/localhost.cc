#include "proxier/plan/localhost.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "ipset/rules/localhost_rules.h"
#include "proxier/plan/bindings.h"
#include "proxier/plan/guarded.h"

namespace ipvsproxier::plan {

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;

namespace {

// What others have of the family's addresses; "": nothing.
std::string taken_by(Family family, const NodeInfo& node, const PlannerOptions& options) {
  const auto& loop = ipset::localhost_loop(family);
  const auto holds_one = [&](const IpPrefix& range) {
    return range.contains(loop.near) || range.contains(loop.far) || range.contains(loop.server);
  };
  const auto text = [&](const char* whose, const IpPrefix& range) {
    return fmt::format("it needs {} to {}, which are in {} {}", loop.near.to_string(),
                       loop.server.to_string(), whose, range.to_string());
  };
  for (const auto& cidr : options.cluster_cidrs)
    if (holds_one(cidr)) return text("the range of pods", cidr);
  for (const auto& range : options.in_cluster_ranges)
    if (holds_one(range)) return text("the range of clients within the cluster,", range);
  for (const auto& cidr : node.pod_cidrs)
    if (holds_one(cidr)) return text("the range of this node's pods", cidr);
  for (const auto& one : node.addresses) {
    if (dummy_number(one.link)) continue;
    const auto range = IpPrefix::of(one.address, one.prefix_length);
    if (holds_one(range)) return text(("the network of " + one.link + ",").c_str(), range);
  }
  return "";
}

}  // namespace

std::string why_no_localhost(Family family, const NodeInfo& node, const PlannerOptions& options) {
  if (!options.node_port_localhost) return "";
  if (!options.serves_localhost())
    return "legacy iptables has no rules for it; --packet-filter=nftables has";
  if (const auto lacks = node.no_localhost.find(family); lacks != node.no_localhost.end())
    return lacks->second;
  return taken_by(family, node, options);
}

bool is_of_localhost(const IpAddress& address) {
  const auto& loop = ipset::localhost_loop(address.family());
  return address == loop.near || address == loop.far || address == loop.server;
}

// Every node has loopback addresses, so none of them is bound for a Service, nor one by which
// packets to localhost travel.
std::optional<api::Problem> loopback_problem(const api::Service& service, Family family,
                                             bool localhost, const PlannerOptions& options) {
  if (!options.differences.unbind_special) return std::nullopt;
  const auto first_of = [&](const std::vector<IpAddress>& addresses) {
    return std::ranges::find_if(addresses, [&](const auto& address) {
      return address.family() == family &&
             (address.is_loopback() || (localhost && is_of_localhost(address)));
    });
  };
  const auto problem = [&](std::string_view field, const IpAddress& address) {
    return api::Problem{
        .severity = api::Severity::warning,
        .origin = service.origin,
        .object = "Service " + api::to_string(service.name),
        .field = std::string(field),
        .message =
            fmt::format("{} is a loopback address{}, which every node has for itself: it is not "
                        "proxied; all else of the Service is",
                        address.to_string(), address.is_loopback() ? "" : " of ipvs-proxier's")};
  };
  const auto external = first_of(service.external_ips);
  if (options.allow_external_ips && external != service.external_ips.end())
    return problem("spec.externalIPs", *external);
  const auto balancer = first_of(service.load_balancer_ips);
  if (balancer != service.load_balancer_ips.end())
    return problem("status.loadBalancer.ingress", *balancer);
  return std::nullopt;
}

bool may_have_elements(ipset::SetId set, const PlannerOptions& options) {
  if (is_of_localhost(set)) return options.serves_localhost();
  if (is_of_healthz(set)) return options.healthz_port != 0;
  return is_of_other_endpoints(set) ? options.differences.drop_invalid : options.sends_clients_on();
}

netlink::LoopSpec localhost_links(const std::vector<Family>& families) {
  netlink::LoopSpec spec{.first = std::string(ipset::kFirstLoopLink),
                         .second = std::string(ipset::kSecondLoopLink),
                         .ways = {}};
  for (const auto family : families) {
    const auto& loop = ipset::localhost_loop(family);
    spec.ways.push_back(
        {.localhost = loop.localhost, .near = loop.near, .far = loop.far, .all = loop.all});
  }
  return spec;
}

}  // namespace ipvsproxier::plan

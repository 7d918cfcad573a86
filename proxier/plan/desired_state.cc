#include "proxier/plan/desired_state.h"

#include <fmt/format.h>

namespace ipvsproxier::plan {

std::string_view to_string(Facet facet) {
  switch (facet) {
    case Facet::cluster_ip:
      return "cluster IP";
    case Facet::external_ip:
      return "external IP";
    case Facet::load_balancer:
      return "load balancer";
    case Facet::node_port:
      return "node port";
  }
  return "?";
}

namespace {

void print_services(const DesiredState& state, std::string& text) {
  for (const auto& [key, planned] : state.services) {
    text += fmt::format("virtual service {} {}", to_string(key), planned.service.scheduler.view());
    if (planned.service.flags != 0) text += fmt::format(" flags {:#x}", planned.service.flags);
    if (planned.service.timeout != 0) text += fmt::format(" timeout {}", planned.service.timeout);
    text += fmt::format(" ({})\n", to_string(planned.facet));
    for (const auto& server : planned.servers)
      text += fmt::format("  real server {}\n", to_string(server));
  }
}

}  // namespace

std::string to_text(const DesiredState& state) {
  std::string text;
  print_services(state, text);
  for (const auto& address : state.addresses)
    text += fmt::format("address {}\n", address.to_string());
  for (const auto& [key, elements] : state.sets)
    for (const auto& element : elements)
      text += fmt::format("element {} {}\n", ipset::set_name(key.id, key.family),
                          ipset::to_string(element));
  for (const auto& [family, parameters] : state.rules)
    for (const auto& table : ipset::rules_for(state.packet_filter, family, parameters))
      for (const auto& chain : table.chains)
        for (const auto& rule : chain.rules)
          text += fmt::format("rule {} {} -A {} {}\n", netlink::to_string(family),
                              to_string(table.table), chain.name, ipset::to_string(rule, family));
  return text;
}

}  // namespace ipvsproxier::plan

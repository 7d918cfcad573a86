#include "proxier/plan/desired_state.h"

#include <fmt/format.h>

namespace ipvsproxier::plan {

netlink::RealServer PlannedService::server(std::size_t index) const {
  return {.key = servers.begin()[static_cast<std::ptrdiff_t>(index)],
          .weight = weights.empty() ? 1 : weights[index],
          .upper_threshold = upper_threshold,
          .lower_threshold = lower_threshold};
}

namespace {

std::string text_of(const netlink::RealServer& server) {
  auto text = fmt::format("  real server {}", to_string(server.key));
  if (server.weight != 1) text += fmt::format(" weight {}", server.weight);
  if (server.upper_threshold != 0)
    text += fmt::format(" thresholds {}/{}", server.upper_threshold, server.lower_threshold);
  return text + "\n";
}

void print_services(const DesiredState& state, std::string& text) {
  for (const auto& [key, planned] : state.services) {
    text += fmt::format("virtual service {} {}", to_string(key), planned.service.scheduler.view());
    if (planned.service.flags != 0) text += fmt::format(" flags {:#x}", planned.service.flags);
    if (planned.service.timeout != 0) text += fmt::format(" timeout {}", planned.service.timeout);
    if (planned.service.netmask_bits != netlink::address_bits(key.address.family()))
      text += fmt::format(" netmask {}", planned.service.netmask_bits);
    text += fmt::format(" ({})\n", to_string(planned.facet));
    for (std::size_t i = 0; i < planned.servers.size(); ++i) text += text_of(planned.server(i));
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

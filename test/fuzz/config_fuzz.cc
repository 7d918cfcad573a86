// Whatever a configuration file holds, reading and judging it ends; what passes holds only values
// that the composition root can use as they are.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proxier/config/config_file.h"
#include "proxier/config/config_json.h"
#include "proxier/config/config_validation.h"

namespace ipvsproxier::config {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_usable(const config::KubeProxyConfig& config) {
  require(config.mode.empty() || config.mode == "ipvs");
  require(config.iptables.masquerade_bit >= 0 && config.iptables.masquerade_bit <= 31);
  require(config.conntrack.max_per_core >= 0 && config.conntrack.min >= 0);
  require(config.ipvs.tcp_timeout.count() >= 0 && config.ipvs.sync_period.count() > 0);
  require(exclude_prefixes(config).size() == config.ipvs.exclude_cidrs.size());
  const auto addresses = node_port_addresses(config);
  // Each is a keyword or a prefix; "all" stands for one of each family.
  require(addresses.prefixes.size() <= std::max<std::size_t>(config.node_port_addresses.size(), 2));
  require(config.node_port_addresses.empty() || addresses.primary || addresses.localhost ||
          !addresses.prefixes.empty());
  std::size_t cluster_cidrs = 0;
  for (const auto family : netlink::kFamilies) {
    const auto cidr = cluster_cidr(config, family);
    require(!cidr || cidr->family() == family);
    cluster_cidrs += cidr ? 1 : 0;
  }
  if (config.detect_local_mode == "ClusterCIDR")
    require(cluster_cidrs == cluster_cidr_list(config).size());
  const auto override_address = node_ip_override(config);
  require(!override_address || !override_address->is_any());
  (void)external_ips_allowed(config);
}

// What is written of a configuration is one that the daemon reads, and it is written the same
// again. What it leaves out has no effect.
void check_written(const config::KubeProxyConfig& config) {
  const auto text = config_yaml(config);
  api::Problems problems;
  const auto again = read_config_text(text, "f", problems);
  for (const auto& problem : problems) require(problem.severity == api::Severity::warning);
  require(config_yaml(again) == text);
  require(again.ipvs == config.ipvs && again.cluster_cidr == config.cluster_cidr);
  require(config_json(again) == config_json(config));
}

void read(std::string_view text) {
  api::Problems problems;
  const auto config = read_config_text(text, "f", problems);
  const auto errors = validate(config);
  const auto more = to_problems(errors, "f");
  problems.insert(problems.end(), more.begin(), more.end());
  for (const auto& problem : problems)
    require(problem.origin[0] == 'f' && !problem.message.empty() && !to_string(problem).empty());
  if (api::has_error(problems)) return;
  check_usable(config);
  auto again = config;
  apply_defaults(again);
  require(again == config);
  check_written(config);
}

}  // namespace
}  // namespace ipvsproxier::config

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ipvsproxier::config::read(text);
  // The same behind what a configuration has to say first, so that the fields are reached soon.
  const std::string head =
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
  ipvsproxier::config::read(head + std::string(text));
  return 0;
}

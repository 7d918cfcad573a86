#include "proxier/config/config_validation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/go_duration.h"
#include "proxier/config/feature_gates.h"
#include "proxier/config/listen_address.h"

namespace ipvsproxier::config {

namespace {

using netlink::IpAddress;
using netlink::IpPrefix;

constexpr std::string_view kInvalid = "Invalid value";
constexpr std::string_view kNotNegative = "must be greater than or equal to 0";
constexpr std::string_view kPreviousMinor = "1.35";
constexpr std::string_view kIptables = "KubeProxyIPTablesConfiguration.";
constexpr std::string_view kIpvs = "KubeProxyIPVSConfiguration.";
constexpr std::string_view kConntrack =
    "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration.";
constexpr std::string_view kDetectLocal = "DetectLocalConfiguration.";

class Checker {
 public:
  template <typename Value>
  void add(std::string field, std::string_view path, const Value& value, std::string_view detail) {
    api::JsonWriter shown;
    shown.value(value);
    add_kind(std::move(field), path, kInvalid, shown.take(), detail);
  }

  void add_kind(std::string field, std::string_view path, std::string_view kind, std::string value,
                std::string_view detail) {
    errors_.push_back(ValidationError{.field = std::move(field),
                                      .path = fmt::format("KubeProxyConfiguration.{}", path),
                                      .kind = std::string(kind),
                                      .value = std::move(value),
                                      .detail = std::string(detail)});
  }

  void not_negative(std::string field, const std::string& path, std::int64_t value) {
    if (value < 0) add(std::move(field), path, value, kNotNegative);
  }

  void not_negative(std::string field, const std::string& path, Nanoseconds value) {
    if (value.count() < 0)
      add(std::move(field), path, api::format_go_duration(value), kNotNegative);
  }

  void in_range(std::string field, const std::string& path, std::int32_t value,
                std::int32_t smallest, std::int32_t largest) {
    if (value < smallest || value > largest)
      add(std::move(field), path, value,
          fmt::format("must be within the range [{}, {}]", smallest, largest));
  }

  // Marks the last error: its field has no effect.
  void without_effect() { errors_.back().no_effect = true; }

  std::vector<ValidationError> take() { return std::move(errors_); }

 private:
  std::vector<ValidationError> errors_;
};

void check_mode(Checker& check, const KubeProxyConfig& config) {
  if (config.mode.empty() || config.mode == "ipvs") return;
  check.add("mode", "Mode.ProxyMode", config.mode,
            "must be ipvs or blank (blank means ipvs): this program only does ipvs; --ignore-mode "
            "takes the rest of the configuration");
}

void check_ipvs(Checker& check, const IpvsConfig& ipvs) {
  const auto path = [](std::string_view name) { return fmt::format("{}{}", kIpvs, name); };
  check.not_negative("ipvs.tcpTimeout", path("TCPTimeout"), ipvs.tcp_timeout);
  check.not_negative("ipvs.tcpFinTimeout", path("TCPFinTimeout"), ipvs.tcp_fin_timeout);
  check.not_negative("ipvs.udpTimeout", path("UDPTimeout"), ipvs.udp_timeout);
  for (std::size_t i = 0; i < ipvs.exclude_cidrs.size(); ++i) {
    if (!IpPrefix::parse(ipvs.exclude_cidrs[i]))
      check.add(fmt::format("ipvs.excludeCIDRs[{}]", i), path(fmt::format("ExcludeCidrs[{}]", i)),
                ipvs.exclude_cidrs[i], "must be a valid CIDR");
  }
}

void check_conntrack(Checker& check, const ConntrackConfig& conntrack) {
  const auto path = [](std::string_view name) { return fmt::format("{}{}", kConntrack, name); };
  check.not_negative("conntrack.maxPerCore", path("MaxPerCore"),
                     std::int64_t{conntrack.max_per_core});
  check.not_negative("conntrack.min", path("Min"), std::int64_t{conntrack.min});
  check.not_negative("conntrack.tcpEstablishedTimeout", path("TCPEstablishedTimeout"),
                     conntrack.tcp_established_timeout);
  check.not_negative("conntrack.tcpCloseWaitTimeout", path("TCPCloseWaitTimeout"),
                     conntrack.tcp_close_wait_timeout);
  check.not_negative("conntrack.udpTimeout", path("UDPTimeout"), conntrack.udp_timeout);
  check.not_negative("conntrack.udpStreamTimeout", path("UDPStreamTimeout"),
                     conntrack.udp_stream_timeout);
}

void check_periods(Checker& check, const KubeProxyConfig& config) {
  const auto show = [](Nanoseconds period) { return api::format_go_duration(period); };
  const auto& ipvs = config.ipvs;
  if (config.config_sync_period.count() <= 0) {
    check.add("configSyncPeriod", "ConfigSyncPeriod", show(config.config_sync_period),
              "must be greater than 0");
    check.without_effect();
  }
  if (ipvs.sync_period.count() <= 0)
    check.add("ipvs.syncPeriod", "SyncPeriod", show(ipvs.sync_period), "must be greater than 0");
  check.not_negative("ipvs.minSyncPeriod", "MinSyncPeriod", ipvs.min_sync_period);
  if (ipvs.min_sync_period > ipvs.sync_period)
    check.add("ipvs.syncPeriod", "SyncPeriod", show(ipvs.min_sync_period),
              "must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod");
}

void check_listen_address(Checker& check, const std::string& field, std::string_view path,
                          const std::string& address) {
  const auto parts = split_host_port(address);
  if (!parts) return check.add(field, path, address, "must be IP:port");
  if (!IpAddress::parse(parts->host)) check.add(field, path, parts->host, "must be a valid IP");
  if (!parse_port(parts->port)) check.add(field, path, parts->port, "must be a valid port");
}

void check_addresses(Checker& check, const KubeProxyConfig& config) {
  if (!IpAddress::parse(config.bind_address))
    check.add("bindAddress", "BindAddress", config.bind_address,
              "not a valid textual representation of an IP address");
  if (!config.healthz_bind_address.empty())
    check_listen_address(check, "healthzBindAddress", "HealthzBindAddress",
                         config.healthz_bind_address);
  check_listen_address(check, "metricsBindAddress", "MetricsBindAddress",
                       config.metrics_bind_address);
  const auto& list = config.node_port_addresses;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto element = [i](std::string_view name) { return fmt::format("{}[{}]", name, i); };
    if (list[i] != "primary" && list[i] != "localhost" && list[i] != "all" &&
        !IpPrefix::parse(list[i]))
      check.add(element("nodePortAddresses"), element("NodePortAddresses"), list[i],
                "must be primary, localhost, all or a valid CIDR");
  }
}

void check_cluster_cidr(Checker& check, const KubeProxyConfig& config) {
  const auto list = cluster_cidr_list(config);
  const auto path = fmt::format("{}ClusterCIDRs", kDetectLocal);
  constexpr std::string_view kPair = "must be a single CIDR or a dual-stack pair of CIDRs";
  if (list.size() > 2) return check.add("clusterCIDR", path, list, kPair);
  std::vector<IpPrefix> prefixes;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const auto prefix = IpPrefix::parse(list[i])) {
      prefixes.push_back(*prefix);
    } else {
      check.add("clusterCIDR", fmt::format("{}[{}]", path, i), list[i],
                "must be a valid CIDR block");
    }
  }
  if (prefixes.size() == 2 && prefixes[0].family() == prefixes[1].family())
    check.add("clusterCIDR", path, list, kPair);
}

void check_detect_local(Checker& check, const KubeProxyConfig& config) {
  const auto& mode = config.detect_local_mode;
  const auto not_empty = [&](const std::string& value, std::string field, std::string_view name) {
    if (value.empty())
      check.add(std::move(field), fmt::format("{}{}", kDetectLocal, name), value,
                "must not be empty");
  };
  if (mode == "ClusterCIDR") {
    check_cluster_cidr(check, config);
  } else if (mode == "BridgeInterface") {
    not_empty(config.detect_local.bridge_interface, "detectLocal.bridgeInterface", "InterfaceName");
  } else if (mode == "InterfaceNamePrefix") {
    not_empty(config.detect_local.interface_name_prefix, "detectLocal.interfaceNamePrefix",
              "InterfacePrefix");
  } else if (mode != "NodeCIDR" && !mode.empty()) {
    check.add_kind("detectLocalMode", "DetectLocalMode", "Unsupported value",
                   api::json_quoted(mode),
                   "supported values: \"ClusterCIDR\", \"NodeCIDR\", \"BridgeInterface\", "
                   "\"InterfaceNamePrefix\", \"\"");
  }
}

void check_log_output(Checker& check, const std::string& format, const LogOutputConfig& output) {
  const auto forbid = [&](std::string_view option) {
    const auto field = fmt::format("logging.options.{}.{}", format, option);
    check.add_kind(field, field, "Forbidden", "", "feature LoggingAlphaOptions is disabled");
    check.without_effect();
  };
  if (output.split_stream) forbid("splitStream");
  if (output.info_buffer_size.find_first_of("123456789") != std::string::npos)
    forbid("infoBufferSize");
}

void check_vmodule(Checker& check, const LoggingConfig& logging) {
  if (!logging.vmodule.empty() && logging.format != "text")
    check.add_kind("logging.vmodule", "logging.vmodule", "Forbidden", "",
                   "only the text log format supports it");
  for (std::size_t i = 0; i < logging.vmodule.size(); ++i) {
    const auto& module = logging.vmodule[i];
    const auto field = fmt::format("logging.vmodule[{}]", i);
    const auto pattern = field + ".filePattern";
    if (module.file_pattern.empty())
      check.add_kind(pattern, pattern, "Required value", "", "must not be empty");
    if (module.file_pattern.find_first_of("=,") != std::string::npos)
      check.add(pattern, pattern, module.file_pattern, "must not hold an equals sign or a comma");
    if (module.verbosity > INT32_MAX)
      check.add(field + ".verbosity", field + ".verbosity", module.verbosity,
                "must be at most 2147483647");
  }
}

void check_logging(Checker& check, const KubeProxyConfig& config) {
  const auto& logging = config.logging;
  if (logging.format != "text" && logging.format != "json")
    check.add("logging.format", "logging.format", logging.format, "must be text or json");
  if (logging.flush_frequency.count() < 0) {
    check.add("logging.flushFrequency", "logging.flushFrequency",
              api::format_go_duration(logging.flush_frequency), kNotNegative);
    check.without_effect();
  }
  if (logging.verbosity > INT32_MAX)
    check.add("logging.verbosity", "logging.verbosity", logging.verbosity,
              "must be at most 2147483647");
  check_vmodule(check, logging);
  if (feature_enabled(config.feature_gates, "LoggingAlphaOptions")) return;
  check_log_output(check, "text", logging.text);
  check_log_output(check, "json", logging.json);
}

}  // namespace

std::string to_string(const ValidationError& error) {
  if (error.value.empty()) return fmt::format("{}: {}: {}", error.path, error.kind, error.detail);
  return fmt::format("{}: {}: {}: {}", error.path, error.kind, error.value, error.detail);
}

std::vector<ValidationError> validate(const KubeProxyConfig& config) {
  Checker check;
  check.in_range("iptables.masqueradeBit", fmt::format("{}MasqueradeBit", kIptables),
                 config.iptables.masquerade_bit, 0, 31);
  check_mode(check, config);
  check_ipvs(check, config.ipvs);
  check_conntrack(check, config.conntrack);
  check.in_range("oomScoreAdj", "KubeProxyLinuxConfiguration.OOMScoreAdj", config.oom_score_adj,
                 -1000, 1000);
  check.not_negative("clientConnection.burst", "ClientConnection.Burst",
                     std::int64_t{config.client_connection.burst});
  check_periods(check, config);
  check_addresses(check, config);
  const auto& shown = config.show_hidden_metrics_for_version;
  if (!shown.empty() && shown != kPreviousMinor) {
    check.add("showHiddenMetricsForVersion", "ShowHiddenMetricsForVersion", shown,
              fmt::format("must be empty or \"{}\", the previous minor version", kPreviousMinor));
    check.without_effect();
  }
  check_detect_local(check, config);
  check_logging(check, config);
  return check.take();
}

api::Problems to_problems(const std::vector<ValidationError>& errors, const std::string& origin) {
  std::set<std::string> fields;
  std::vector<std::string> texts;
  api::Problems problems;
  for (const auto& error : errors) {
    if (error.no_effect) {
      problems.push_back(api::Problem{.severity = api::Severity::warning,
                                      .origin = origin,
                                      .field = origin.empty() ? "" : error.field,
                                      .message = to_string(error) + "; it has no effect here"});
      continue;
    }
    fields.insert(error.field);
    texts.push_back(to_string(error));
  }
  if (texts.empty()) return problems;
  auto list = fmt::format("{}", fmt::join(texts, ", "));
  if (texts.size() != 1) list = "[" + list + "]";
  // Not advice about fields: on the command line they have other names.
  problems.push_back(
      api::Problem{.origin = origin,
                   .field = origin.empty() ? "" : fmt::format("{}", fmt::join(fields, ", ")),
                   .message = "failed validate: " + list});
  return problems;
}

}  // namespace ipvsproxier::config

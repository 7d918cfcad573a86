#include "proxier/config/kube_proxy_flags.h"

#include <variant>

#include <fmt/format.h>

#include "proxier/api/go_duration.h"
#include "proxier/config/config_fields.h"
#include "proxier/config/listen_address.h"
#include "proxier/config/text.h"

namespace ipvsproxier::config {

namespace {

using netlink::IpAddress;

// What the form asks of a flag's text. A description of a mistake, or "".
std::string mistake_in(std::string_view text, Form form) {
  switch (form) {
    case Form::address:
      return text.empty() || IpAddress::parse(text) ? "" : "must be an IP address";
    case Form::listen_address:
      return text.empty() || IpAddress::parse(text) || parse_listen_address(text)
                 ? ""
                 : "must be an IP address or IP:port";
    case Form::quantity:
      return is_quantity(text) ? "" : "must be a quantity such as 0 or 64Ki";
    case Form::any:
    case Form::nanoseconds:
      break;
  }
  return "";
}

std::string set_field(const ConfigField& field, std::string_view text, FlagConfig& flags) {
  auto mistake = mistake_in(text, field.form);
  if (!mistake.empty()) return mistake;
  // kube-proxy's parser of addresses ignores an empty text.
  const bool is_address = field.form == Form::address || field.form == Form::listen_address;
  if (is_address && text.empty()) return "";
  return std::visit([&](auto* place) { return set_value(text, *place); },
                    field.value(flags.config));
}

// "14", "1m" instead of "1m0s"; "" for a default that need not be told.
struct DefaultText {
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const bool* value) const { return *value ? "true" : ""; }
  std::string operator()(const Nanoseconds* value) const {
    if (*value == Nanoseconds::zero()) return "";
    auto text = api::format_go_duration(*value);
    for (const std::string_view zero : {"m0s", "h0m"})
      if (text.ends_with(zero)) text.resize(text.size() - 2);
    return text;
  }
  std::string operator()(const double* value) const { return fmt::format("{}", *value); }
  std::string operator()(const std::int32_t* value) const { return std::to_string(*value); }
  std::string operator()(const auto* /*none*/) const { return ""; }
};

std::string with_default(const ConfigField& field) {
  FlagConfig flags;
  auto text = std::visit(DefaultText(), field.value(flags.config));
  const bool has_none = text.empty() || text == "0";
  return std::string(field.flag.help) + (has_none ? "" : fmt::format(" (default {})", text));
}

// Accepts a value without effect.
std::string drop(std::string_view /*text*/, FlagConfig& /*flags*/) {
  return "";
}

// The flags of the fields whose paths begin so, or do not.
std::vector<ConfigFlag> flags_of_fields(std::string_view prefix, bool begin_so) {
  std::vector<ConfigFlag> flags;
  for (const auto& field : config_fields()) {
    if (field.flag.name.empty() || field.path.starts_with(prefix) != begin_so) continue;
    flags.push_back({field.flag.name, field.flag.value, with_default(field),
                     [&field](std::string_view text, FlagConfig& target) {
                       return set_field(field, text, target);
                     }});
  }
  return flags;
}

constexpr std::string_view kLogging = "logging.";

// With flags that are not fields.
std::vector<ConfigFlag> all_config_flags() {
  auto flags = flags_of_fields(kLogging, false);
  flags.push_back(
      {"healthz-port", "PORT",
       "For a --healthz-bind-address without one; 0: health is not told (default 10256)",
       set_member<FlagConfig, &FlagConfig::healthz_port>});
  flags.push_back({"metrics-port", "PORT",
                   "For a --metrics-bind-address without one (default 10249)",
                   set_member<FlagConfig, &FlagConfig::metrics_port>});
  // Of libraries that kube-proxy uses.
  for (const char* name : {"boot-id-file", "machine-id-file"})
    flags.push_back({name, "FILE,...", "Accepted, no effect", drop});
  return flags;
}

std::vector<ConfigFlag> all_logging_flags() {
  auto flags = flags_of_fields(kLogging, true);
  flags.push_back({"vmodule", "PATTERN=N,...",
                   "Accepted, no effect: the patterns name kube-proxy's sources",
                   set_member<FlagConfig, &FlagConfig::vmodule>});
  return flags;
}

// Combines an address with the port flag that belongs to it, as kube-proxy does.
void settle(std::string& address, std::int32_t port) {
  if (port == 0) {
    address.clear();
  } else if (port > 0 && port <= UINT16_MAX) {
    add_port(address, static_cast<std::uint16_t>(port));
  }
}

}  // namespace

std::span<const ConfigFlag> config_flags() {
  static const auto kFlags = all_config_flags();
  return kFlags;
}

std::span<const ConfigFlag> logging_flags() {
  static const auto kFlags = all_logging_flags();
  return kFlags;
}

KubeProxyConfig take_config(FlagConfig flags) {
  KubeProxyConfig config = std::move(flags.config);
  settle(config.healthz_bind_address, flags.healthz_port);
  settle(config.metrics_bind_address, flags.metrics_port);
  if (config.detect_local_mode.empty())
    config.detect_local_mode = KubeProxyConfig{}.detect_local_mode;
  config.logging.vmodule.insert(config.logging.vmodule.begin(), flags.vmodule.begin(),
                                flags.vmodule.end());
  return config;
}

}  // namespace ipvsproxier::config

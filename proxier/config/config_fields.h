#pragma once

// The fields of KubeProxyConfiguration, a row each: from it come the reader and the writer of the
// file (config_file.h, config_json.h) and kube-proxy's flags (kube_proxy_flags.h). Defaults are
// those of KubeProxyConfig. Pure.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxier/config/kube_proxy_config.h"

namespace ipvsproxier::config {

// The place of a field's value.
using FieldValue =
    std::variant<std::string*, bool*, double*, std::int32_t*, std::uint32_t*, Nanoseconds*,
                 std::vector<std::string>*, std::map<std::string, bool>*, std::vector<VModule>*>;

// What a text or duration must be beyond its type.
enum class Form : std::uint8_t {
  any,
  address,         // of a flag: an IP address; "" keeps the value
  listen_address,  // of a flag: an IP address, with or without a port; "" keeps the value
  quantity,        // "64Ki"; in a file also a number
  nanoseconds,     // a duration; in a file also a number of nanoseconds
};

// A mode that is not selected does not use the field, and kube-proxy writes it as zero.
enum class Written : std::uint8_t { always, unless_empty, as_zero };

// Of kube-proxy. "": the field has none.
struct FieldFlag {
  std::string_view name;
  std::string_view value;  // its name in --help; "": a switch
  std::string_view help;   // without the default
};

struct ConfigField {
  std::string_view path;  // "ipvs.tcpFinTimeout"
  FieldValue (*value)(KubeProxyConfig& config);
  FieldFlag flag = {};
  // Without effect a wrong type is a warning instead of an error, so that the file of a later
  // version does not end the process.
  bool has_effect = true;
  Form form = Form::any;
  Written written = Written::always;
};

// In the order of kube-proxy's declarations, in which the file is written.
std::span<const ConfigField> config_fields();

}  // namespace ipvsproxier::config

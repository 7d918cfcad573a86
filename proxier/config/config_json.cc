#include "proxier/config/config_json.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <ostream>
#include <system_error>
#include <type_traits>
#include <variant>

#include <nlohmann/json.hpp>

#include "proxier/api/json_text.h"
#include "proxier/api/yaml_writer.h"
#include "proxier/config/config_fields.h"
#include "proxier/config/go_duration.h"

namespace ipvsproxier::config {

namespace {

// Keeps members in the order of kube-proxy's declarations.
using OrderedJson = nlohmann::ordered_json;

std::string show(Nanoseconds duration) {
  return format_go_duration(duration);
}

// Go writes 5, not 5.0.
OrderedJson number(double value) {
  const double whole = std::trunc(value);
  if (whole == value && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

// An empty list means that none was given.
OrderedJson list(const std::vector<std::string>& elements) {
  return elements.empty() ? OrderedJson(nullptr) : OrderedJson(elements);
}

OrderedJson modules(const std::vector<VModule>& elements) {
  auto result = OrderedJson::array();
  for (const auto& [pattern, verbosity] : elements)
    result.push_back(OrderedJson{{"filePattern", pattern}, {"verbosity", verbosity}});
  return result;
}

struct ToJson {
  OrderedJson operator()(const Nanoseconds* value) const { return show(*value); }
  OrderedJson operator()(const double* value) const { return number(*value); }
  OrderedJson operator()(const std::vector<std::string>* value) const { return list(*value); }
  OrderedJson operator()(const std::vector<VModule>* value) const { return modules(*value); }
  OrderedJson operator()(const auto* value) const { return *value; }
};

struct IsEmpty {
  bool operator()(const bool* value) const { return !*value; }
  bool operator()(const auto* value) const {
    return *value == std::remove_cvref_t<decltype(*value)>{};
  }
};

OrderedJson zero_of(const FieldValue& value) {
  return std::visit(
      [](const auto* place) -> OrderedJson {
        const std::remove_cvref_t<decltype(*place)> zero{};
        return ToJson()(&zero);
      },
      value);
}

// The member of the document that the path names.
OrderedJson& member(OrderedJson& document, std::string_view path) {
  auto* at = &document;
  for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  return (*at)[std::string(path)];
}

OrderedJson to_json(KubeProxyConfig config) {
  config.mode = "ipvs";  // also for "", which has another meaning in kube-proxy
  OrderedJson json = {{"kind", "KubeProxyConfiguration"},
                      {"apiVersion", "kubeproxy.config.k8s.io/v1alpha1"}};
  for (const auto& field : config_fields()) {
    const auto value = field.value(config);
    if (field.written == Written::unless_empty && std::visit(IsEmpty(), value)) continue;
    member(json, field.path) =
        field.written == Written::as_zero ? zero_of(value) : std::visit(ToJson(), value);
  }
  return json;
}

}  // namespace

std::string config_json(const KubeProxyConfig& config) {
  return api::to_json_text(OrderedJson{{"kubeproxy.config.k8s.io", to_json(config)}});
}

std::string config_yaml(const KubeProxyConfig& config) {
  return api::write_yaml(nlohmann::json::parse(api::to_json_text(to_json(config)), nullptr, false));
}

std::string write_config_file(const std::string& path, const KubeProxyConfig& config) {
  const auto text = config_yaml(config);
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (file) file << text << std::flush;
  const int cause = errno;
  if (file) return "";
  return "cannot be written: " + std::generic_category().message(cause);
}

}  // namespace ipvsproxier::config

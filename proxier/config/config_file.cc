#include "proxier/config/config_file.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "proxier/api/documents.h"
#include "proxier/api/json_tree.h"
#include "proxier/config/config_fields.h"
#include "proxier/config/config_section.h"
#include "proxier/config/feature_gates.h"

namespace ipvsproxier::config {

namespace {

using api::Severity;

constexpr std::string_view kApiVersion = "kubeproxy.config.k8s.io/v1alpha1";
constexpr std::string_view kKind = "KubeProxyConfiguration";

void read_value(ConfigSection& section, std::string_view key, Form form, FieldValue value) {
  if (auto* const* quantity = std::get_if<std::string*>(&value);
      quantity != nullptr && form == Form::quantity)
    return section.read_quantity(key, **quantity);
  if (auto* const* duration = std::get_if<Nanoseconds*>(&value);
      duration != nullptr && form == Form::nanoseconds)
    return section.read_with_nanoseconds(key, **duration);
  std::visit([&](auto* place) { section.read(key, *place); }, value);
}

// Whether any field below the path has an effect.
bool has_effect(std::string_view path) {
  const auto fields = config_fields();
  return std::any_of(fields.begin(), fields.end(), [&](const ConfigField& field) {
    return field.has_effect && field.path.starts_with(path);
  });
}

// Reads the fields below `prefix`: "", or "logging.options." for that section.
void read_fields(ConfigSection& section, std::string_view prefix, KubeProxyConfig& config) {
  std::string_view last;
  for (const auto& field : config_fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const auto rest = field.path.substr(prefix.size());
    const auto key = rest.substr(0, rest.find('.'));
    if (key == last) continue;
    last = key;
    if (key == rest) {
      section.set_effect(field.has_effect);
      read_value(section, key, field.form, field.value(config));
      continue;
    }
    const auto below = field.path.substr(0, prefix.size() + key.size() + 1);
    section.set_effect(has_effect(below));
    auto member = section.section(key);
    if (!member) continue;
    read_fields(*member, below, config);
    member->report_unknown();
  }
}

// Whether apiVersion and kind are right.
bool check_type(ConfigSection& top) {
  std::string api_version;
  std::string kind;
  top.read("apiVersion", api_version);
  top.read("kind", kind);
  const auto check = [&top](std::string_view key, std::string_view got, std::string_view wanted) {
    if (got == wanted) return true;
    const std::string shown = got.empty() ? "missing" : api::show(std::string(got));
    top.problem(Severity::error, key, fmt::format("must be {}, not {}", wanted, shown));
    return false;
  };
  const bool version_fits = check("apiVersion", api_version, kApiVersion);
  const bool kind_fits = check("kind", kind, kKind);
  return version_fits && kind_fits;
}

}  // namespace

KubeProxyConfig read_config_text(std::string_view text, const std::string& origin,
                                 api::Problems& problems) {
  KubeProxyConfig config;
  const auto refuse = [&](std::string message) {
    problems.push_back(api::Problem{.origin = origin, .message = std::move(message)});
    return KubeProxyConfig{};
  };
  auto parsed = api::parse_documents(text, origin);
  if (!parsed.problems.empty()) {
    problems.insert(problems.end(), parsed.problems.begin(), parsed.problems.end());
    return config;
  }
  if (parsed.documents.size() != 1)
    return refuse(
        fmt::format("must hold one {}, not {} documents", kKind, parsed.documents.size()));
  const auto& document = parsed.documents[0];
  const auto tree = api::to_tree(document.json.root());
  if (!tree.is_object()) return refuse(fmt::format("must be an object, not {}", api::show(tree)));
  ConfigSection top(tree, "", origin, problems);
  for (const auto& path : document.duplicates)
    top.problem(Severity::warning, path, "is given more than once; the last one counts");
  if (!check_type(top)) return config;
  // The defaults of both depend on the family of bindAddress.
  config.healthz_bind_address.clear();
  config.metrics_bind_address.clear();
  read_fields(top, "", config);
  top.report_unknown();
  auto gates = check_feature_gates(config.feature_gates, origin);
  problems.insert(problems.end(), gates.begin(), gates.end());
  apply_defaults(config);
  return config;
}

}  // namespace ipvsproxier::config

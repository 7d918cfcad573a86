#include "proxier/config/config_file.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "proxier/api/documents.h"
#include "proxier/api/fields.h"
#include "proxier/api/go_duration.h"
#include "proxier/config/config_fields.h"
#include "proxier/config/feature_gates.h"
#include "proxier/config/text.h"

namespace ipvsproxier::config {

namespace {

using api::Fields;
using api::JsonValue;
using api::Report;
using api::Severity;

constexpr std::string_view kApiVersion = "kubeproxy.config.k8s.io/v1alpha1";
constexpr std::string_view kKind = "KubeProxyConfiguration";
constexpr std::string_view kWithoutEffect = "it has no effect here";

void warn_of_unknown(const Fields& fields, const std::function<bool(std::string_view)>& is_known) {
  fields.each_member([&](std::string_view key, const JsonValue&) {
    if (!is_known(key)) fields.note(Severity::warning, key, "unknown field; it is ignored");
  });
}

// Reads member `key` into a value, which stays as it is if the member is absent or wrong.
struct ValueReader {
  const Fields& fields;
  std::string_view key;
  Form form;

  void operator()(std::string* value) const {
    if (form == Form::quantity) return read_quantity(value);
    *value = fields.text(key, *value);
  }
  void operator()(bool* value) const { *value = fields.boolean(key, *value); }
  void operator()(double* value) const { *value = fields.number(key, *value); }
  void operator()(std::int32_t* value) const { read_integer(value); }
  void operator()(std::uint32_t* value) const { read_integer(value); }
  void operator()(std::vector<std::string>* value) const {
    if (auto texts = fields.texts(key)) *value = *std::move(texts);
  }
  void operator()(std::map<std::string, bool>* value) const {
    const Fields gates(fields, key);
    gates.each_member([&](std::string_view name, const JsonValue& element) {
      const auto flag = element.boolean();
      if (!flag && find_feature_gate(name) == nullptr)
        return gates.note(api::Severity::warning, name, std::string(kUnknownGate));
      if (!flag) return gates.wrong_type(name, "true or false", element);
      (*value)[std::string(name)] = *flag;
    });
  }
  void operator()(std::vector<VModule>* value) const {
    fields.each_object(key, [&](const Fields& element) {
      VModule module;
      module.file_pattern = element.text("filePattern");
      ValueReader{element, "verbosity", Form::any}(&module.verbosity);
      warn_of_unknown(element, [](std::string_view name) {
        return name == "filePattern" || name == "verbosity";
      });
      value->push_back(std::move(module));
    });
  }
  // "1m30s" or 0.
  void operator()(Nanoseconds* value) const {
    const auto found = fields.find(key);
    if (!found) return;
    if (form == Form::nanoseconds && found->is_number()) {
      std::int64_t count = value->count();
      read_integer(&count);
      *value = Nanoseconds(count);
      return;
    }
    auto duration = found->text() ? api::parse_go_duration(*found->text()) : std::nullopt;
    if (found->integer() == 0) duration = Nanoseconds(0);
    if (duration)
      *value = *duration;
    else
      fields.wrong_type(key, "a duration such as \"30s\" or \"1m30s\"", *found);
  }

 private:
  template <typename Integer>
  void read_integer(Integer* value) const {
    using Limits = std::numeric_limits<Integer>;
    if (const auto number = fields.integer(key, Limits::min(), Limits::max()))
      *value = static_cast<Integer>(*number);
  }
  // "64Ki" or a number, as text.
  void read_quantity(std::string* value) const {
    const auto found = fields.find(key);
    if (!found) return;
    auto text =
        found->is_number() ? api::to_json_text(*found) : std::string(found->text().value_or(""));
    if (is_quantity(text))
      *value = std::move(text);
    else
      fields.wrong_type(key, "a quantity such as 0 or \"64Ki\"", *found);
  }
};

// Whether any field below the path has an effect.
bool has_effect(std::string_view path) {
  const auto fields = config_fields();
  return std::any_of(fields.begin(), fields.end(), [&](const ConfigField& field) {
    return field.has_effect && field.path.starts_with(path);
  });
}

// Whether the object at the path ("": the document) has a field of this name.
bool is_field(std::string_view path, std::string_view name) {
  const auto fields = config_fields();
  return std::any_of(fields.begin(), fields.end(), [&](const ConfigField& field) {
    if (!field.path.starts_with(path)) return false;
    const auto rest = field.path.substr(path.size());
    return rest.substr(0, rest.find('.')) == name;
  });
}

// Reads the fields below `prefix`: "", or "logging.options." for that object.
void read_fields(const Fields& fields, Report& report, std::string_view prefix,
                 KubeProxyConfig& config) {
  const auto set_effect = [&report](bool effect) {
    report.severity = effect ? Severity::error : Severity::warning;
    report.consequence = effect ? "" : kWithoutEffect;
  };
  std::string_view last;
  for (const auto& field : config_fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const auto rest = field.path.substr(prefix.size());
    const auto key = rest.substr(0, rest.find('.'));
    if (key == last) continue;
    last = key;
    if (key == rest) {
      set_effect(field.has_effect);
      std::visit(ValueReader{fields, key, field.form}, field.value(config));
      continue;
    }
    const auto below = field.path.substr(0, prefix.size() + key.size() + 1);
    set_effect(has_effect(below));
    const Fields member(fields, key);
    read_fields(member, report, below, config);
    warn_of_unknown(member, [&](std::string_view name) { return is_field(below, name); });
  }
}

// Whether apiVersion and kind are right.
bool check_type(const Fields& top) {
  const auto api_version = top.text("apiVersion");
  const auto kind = top.text("kind");
  const auto check = [&top](std::string_view key, std::string_view got, std::string_view wanted) {
    if (got == wanted) return true;
    const std::string shown = got.empty() ? "missing" : api::show(got);
    top.note(Severity::error, key, fmt::format("must be {}, not {}", wanted, shown));
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
  Report report{.origin = origin, .problems = problems};
  const Fields top(document.json.root(), report);
  if (!top.exists()) return config;
  for (const auto& path : document.duplicates)
    top.note(Severity::warning, path, "is given more than once; the last one counts");
  if (!check_type(top)) return config;
  // The defaults of both depend on the family of bindAddress.
  config.healthz_bind_address.clear();
  config.metrics_bind_address.clear();
  read_fields(top, report, "", config);
  warn_of_unknown(top, [](std::string_view name) {
    return name == "apiVersion" || name == "kind" || is_field("", name);
  });
  auto gates = check_feature_gates(config.feature_gates, origin);
  problems.insert(problems.end(), gates.begin(), gates.end());
  apply_defaults(config);
  return config;
}

}  // namespace ipvsproxier::config

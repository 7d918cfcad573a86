#include "proxier/config/config_json.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <ostream>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <variant>
#include <vector>

#include "proxier/api/document_writer.h"
#include "proxier/api/go_duration.h"
#include "proxier/api/json_value.h"
#include "proxier/config/config_fields.h"

namespace ipvsproxier::config {

namespace {

// Writes the value of a field.
struct WriteValue {
  api::DocumentWriter& out;

  void operator()(const Nanoseconds* value) const { out.value(api::format_go_duration(*value)); }
  // Go writes 5, not 5.0.
  void operator()(const double* value) const {
    const double whole = std::trunc(*value);
    if (whole == *value && std::abs(*value) < 1e15)
      out.value(static_cast<std::int64_t>(*value));
    else
      out.value(*value);
  }
  // An empty list means that none was given.
  void operator()(const std::vector<std::string>* value) const {
    if (value->empty())
      out.value(nullptr);
    else
      out.value(*value);
  }
  void operator()(const std::vector<VModule>* value) const {
    out.list(*value, [&](const VModule& module) {
      out.object([&] {
        out.member("filePattern", module.file_pattern);
        out.member("verbosity", module.verbosity);
      });
    });
  }
  void operator()(const std::map<std::string, bool>* value) const {
    out.object([&] {
      for (const auto& [name, enabled] : *value) out.member(name, enabled);
    });
  }
  void operator()(const auto* value) const { out.value(*value); }
};

struct IsEmpty {
  bool operator()(const bool* value) const { return !*value; }
  bool operator()(const auto* value) const {
    return *value == std::remove_cvref_t<decltype(*value)>{};
  }
};

void write_zero(api::DocumentWriter& out, const FieldValue& value) {
  std::visit(
      [&](const auto* place) {
        const std::remove_cvref_t<decltype(*place)> zero{};
        WriteValue{out}(&zero);
      },
      value);
}

// Writes members whose names are paths: "ipvs.syncPeriod" lies in the object "ipvs". Members of one
// object follow each other.
class PathWriter {
 public:
  explicit PathWriter(api::DocumentWriter& out) : out_(out) {}

  // Leaves and opens objects as far as the path needs it, and writes the key.
  void key(std::string_view path) {
    std::size_t depth = 0;
    for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.'), ++depth) {
      const auto name = path.substr(0, dot);
      path.remove_prefix(dot + 1);
      if (depth < open_.size() && open_[depth] == name) continue;
      leave(depth);
      out_.key(name);
      out_.open_object();
      open_.push_back(name);
    }
    leave(depth);
    out_.key(path);
  }

  // Leaves objects until `depth` of them are open.
  void leave(std::size_t depth) {
    for (; open_.size() > depth; open_.pop_back()) out_.close();
  }

 private:
  api::DocumentWriter& out_;
  std::vector<std::string_view> open_;
};

void write_config(api::DocumentWriter& out, KubeProxyConfig config) {
  config.mode = "ipvs";  // also for "", which has another meaning in kube-proxy
  out.object([&] {
    out.member("kind", "KubeProxyConfiguration");
    out.member("apiVersion", "kubeproxy.config.k8s.io/v1alpha1");
    PathWriter paths(out);
    for (const auto& field : config_fields()) {
      const auto value = field.value(config);
      if (field.written == Written::unless_empty && std::visit(IsEmpty(), value)) continue;
      paths.key(field.path);
      if (field.written == Written::as_zero)
        write_zero(out, value);
      else
        std::visit(WriteValue{out}, value);
    }
    paths.leave(0);
  });
}

}  // namespace

std::string config_json(const KubeProxyConfig& config) {
  api::JsonWriter out;
  out.object([&] {
    out.key("kubeproxy.config.k8s.io");
    write_config(out, config);
  });
  return out.take();
}

void write_sorted_config(api::DocumentWriter& out, const KubeProxyConfig& config) {
  api::JsonWriter in_order;
  write_config(in_order, config);
  if (const auto document = api::JsonDocument::parse(in_order.take()))
    write_value(out, document->root());
}

std::string config_yaml(const KubeProxyConfig& config) {
  api::YamlWriter out;
  write_sorted_config(out, config);
  return out.take();
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

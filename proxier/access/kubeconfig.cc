#include "proxier/access/kubeconfig.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "netlink/text.h"
#include "proxier/access/exec_plugin.h"
#include "proxier/access/pem.h"
#include "proxier/api/documents.h"
#include "proxier/api/fields.h"

namespace ipvsproxier::access {

namespace {

namespace fs = std::filesystem;

using api::Fields;
using api::Severity;

constexpr std::string_view kPluginExtension = "client.authentication.k8s.io/exec";

std::string resolve(const std::string& kubeconfig, const std::string& file) {
  if (file.empty() || fs::path(file).is_absolute()) return file;
  std::error_code ignored;
  return fs::absolute(fs::path(kubeconfig).parent_path() / file, ignored)
      .lexically_normal()
      .native();
}

// The element named `name` of the list `key`.
std::optional<Fields> find_named(const Fields& root, std::string_view key,
                                 const std::string& name) {
  std::optional<Fields> found;
  root.each_object(key, [&](const Fields& entry) {
    if (entry.text("name") != name) return;
    if (found)
      entry.note(Severity::warning, "name",
                 fmt::format("there is another \"{}\" before it, which counts", name));
    else
      found.emplace(entry);
  });
  return found;
}

std::string names_of(const Fields& root, std::string_view key) {
  std::vector<std::string> names;
  root.each_object(key, [&](const Fields& entry) { names.push_back(entry.text("name")); });
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// The base64 text of member `key`, decoded.
std::string decoded(const Fields& section, std::string_view key) {
  const auto bytes = base64_decode(section.text(key));
  if (!bytes) section.refuse(key, "is not base64 (one of the standard alphabet, with padding)");
  return bytes.value_or("");
}

// Whether KEY or KEY-data is set; both together are a problem.
bool one_of(const Fields& section, const std::string& key) {
  const auto data = key + "-data";
  if (!section.text(key).empty() && !section.text(data).empty())
    section.refuse(data, fmt::format("is there beside {}: remove one of them", key));
  return !section.text(key).empty() || !section.text(data).empty();
}

std::string proxy_fault(std::string_view url) {
  const auto scheme = url.substr(0, std::min(url.find("://"), url.size()));
  if (scheme != "http" && scheme != "https" && scheme != "socks5" && scheme != "socks5h")
    return "must be http://, https:// or socks5:// and a host";
  return url.size() == scheme.size() + 3 ? "names no host" : "";
}

// With socks5 curl resolves names locally; Go leaves that to the proxy, which is socks5h.
std::string proxy_for_curl(const std::string& url) {
  constexpr std::string_view kLocal = "socks5://";
  return url.starts_with(kLocal) ? "socks5h://" + url.substr(kLocal.size()) : url;
}

class Reader {
 public:
  Reader(const Fields& root, std::string path, const std::string& master)
      : root_(root), path_(std::move(path)), master_(master) {}

  AccessSource read();

 private:
  void read_cluster(const Fields& cluster);
  void read_authority(const Fields& cluster);
  void read_user(const Fields& user);
  void read_key_pair(const Fields& user);
  void refuse_unsupported(const Fields& user);
  void refuse_mixtures(const Fields& user);
  void refuse_in_the_clear(const Fields& cluster, const Fields& user);
  void read_plugin(const Fields& exec);
  void read_plugin_mode(const Fields& exec, const std::string& version);

  const Fields& root_;
  std::string path_;
  const std::string& master_;
  std::string plugin_config_;
  AccessSource source_;
};

AccessSource Reader::read() {
  source_.origin = path_;
  for (const auto& [key, wanted] : {std::pair("kind", "Config"), std::pair("apiVersion", "v1")})
    if (const auto value = root_.text(key); !value.empty() && value != wanted)
      root_.refuse(key, fmt::format("is not {}: this is no kubeconfig", wanted));
  const auto current = root_.text("current-context");
  if (current.empty()) {
    root_.refuse("current-context", fmt::format("is empty: name one of the contexts ({})",
                                                names_of(root_, "contexts")));
    return source_;
  }
  const auto context_entry = find_named(root_, "contexts", current);
  if (!context_entry) {
    root_.refuse("current-context",
                 fmt::format("names \"{}\", which is not among the contexts ({})", current,
                             names_of(root_, "contexts")));
    return source_;
  }
  const Fields context(*context_entry, "context");
  const auto cluster_name = context.text("cluster");
  const auto user_name = context.text("user");
  const auto cluster_entry = find_named(root_, "clusters", cluster_name);
  if (!cluster_entry)
    context.refuse("cluster", fmt::format("names \"{}\", which is not among the clusters ({})",
                                          cluster_name, names_of(root_, "clusters")));
  const auto user_entry = find_named(root_, "users", user_name);
  // A context without a user has no credentials.
  if (!user_entry && !user_name.empty())
    context.refuse("user", fmt::format("names \"{}\", which is not among the users ({})", user_name,
                                       names_of(root_, "users")));
  if (!user_name.empty()) source_.origin = fmt::format("{}: user {}", path_, user_name);
  if (!cluster_entry) return source_;
  const Fields cluster(*cluster_entry, "cluster");
  read_cluster(cluster);
  if (!user_entry) return source_;
  const Fields user(*user_entry, "user");
  read_user(user);
  refuse_in_the_clear(cluster, user);
  return source_;
}

void Reader::read_cluster(const Fields& cluster) {
  auto& fixed = source_.fixed;
  fixed.server = master_.empty() ? cluster.text("server") : master_;
  if (const auto fault = server_fault(fixed.server); !fault.empty()) {
    if (master_.empty())
      cluster.refuse("server", fault);
    else
      cluster.refuse("server", fmt::format("is replaced by --master, which {}", fault));
  }
  fixed.server.erase(fixed.server.find_last_not_of('/') + 1);
  if (master_.empty()) fixed.tls_server_name = cluster.text("tls-server-name");
  if (const auto proxy = cluster.text("proxy-url"); !proxy.empty()) {
    if (const auto fault = proxy_fault(proxy); !fault.empty()) cluster.refuse("proxy-url", fault);
    fixed.proxy_url = proxy_for_curl(proxy);
  }
  read_authority(cluster);
  cluster.each_object("extensions", [this](const Fields& extension) {
    if (extension.text("name") != kPluginExtension) return;
    const auto config = extension.find("extension");
    plugin_config_ = config ? api::to_json_text(*config) : "";
  });
}

void Reader::read_authority(const Fields& cluster) {
  auto& fixed = source_.fixed;
  fixed.insecure_skip_tls_verify = cluster.boolean("insecure-skip-tls-verify", false);
  if (!one_of(cluster, "certificate-authority")) return;
  if (fixed.insecure_skip_tls_verify)
    cluster.refuse("insecure-skip-tls-verify",
                   "is true beside a certificate authority, which would not be asked: remove one "
                   "of them");
  source_.ca_file = resolve(path_, cluster.text("certificate-authority"));
  if (cluster.text("certificate-authority-data").empty()) return;
  fixed.ca_pem = decoded(cluster, "certificate-authority-data");
  if (fixed.ca_pem.empty()) return;
  if (const auto fault = certificate_fault(fixed.ca_pem); !fault.empty())
    cluster.refuse("certificate-authority-data", fault);
}

void Reader::read_user(const Fields& user) {
  auto& fixed = source_.fixed;
  refuse_unsupported(user);
  refuse_mixtures(user);
  fixed.bearer_token = user.text("token");
  if (const auto fault = token_fault(fixed.bearer_token); !fault.empty())
    user.refuse("token", fault);
  source_.token_file = resolve(path_, user.text("tokenFile"));
  fixed.username = user.text("username");
  fixed.password = user.text("password");
  read_key_pair(user);
  if (user.find("exec")) read_plugin(Fields(user, "exec"));
}

void Reader::read_key_pair(const Fields& user) {
  auto& fixed = source_.fixed;
  const bool has_certificate = one_of(user, "client-certificate");
  const bool has_key = one_of(user, "client-key");
  if (has_certificate && !has_key)
    user.refuse("client-key", "is missing beside client-certificate (client-key-data would do)");
  if (has_key && !has_certificate)
    user.refuse("client-certificate",
                "is missing beside client-key (client-certificate-data would do)");
  source_.client_certificate_file = resolve(path_, user.text("client-certificate"));
  source_.client_key_file = resolve(path_, user.text("client-key"));
  if (!user.text("client-certificate-data").empty())
    fixed.client_certificate_pem = decoded(user, "client-certificate-data");
  if (!user.text("client-key-data").empty())
    fixed.client_key_pem = decoded(user, "client-key-data");
  if (fixed.client_certificate_pem.empty() || fixed.client_key_pem.empty()) return;
  const auto fault = key_pair_fault(fixed.client_certificate_pem, fixed.client_key_pem);
  if (!fault.empty()) user.refuse("client-certificate-data", fault);
}

void Reader::refuse_unsupported(const Fields& user) {
  if (user.find("auth-provider"))
    user.refuse("auth-provider",
                "is no longer part of Kubernetes (since 1.26): use an exec plugin, a token or a "
                "client certificate");
  for (const auto* key : {"as", "as-uid", "as-groups", "as-user-extra"})
    if (user.find(key))
      user.refuse(key,
                  "impersonation is not supported, the daemon is who it is: remove it and give it "
                  "credentials of that user's own");
}

void Reader::refuse_mixtures(const Fields& user) {
  const bool has_token = !user.text("token").empty() || !user.text("tokenFile").empty();
  const bool has_password = !user.text("username").empty() || !user.text("password").empty();
  const bool has_certificate =
      !user.text("client-certificate").empty() || !user.text("client-certificate-data").empty();
  if (has_token && has_password)
    user.refuse("username", "is there beside a token: remove one of them");
  if (user.find("exec") && (has_token || has_password || has_certificate))
    user.refuse("exec", "is there beside other credentials: remove one of them");
}

// Refuses credentials without TLS: anybody on the way could read and use them.
void Reader::refuse_in_the_clear(const Fields& cluster, const Fields& user) {
  if (!source_.fixed.server.starts_with("http://")) return;
  const auto what =
      fmt::format("would be of no use or sent in the clear to {}: use https", source_.fixed.server);
  for (const auto* key : {"token", "tokenFile", "username", "password", "client-certificate",
                          "client-certificate-data"})
    if (!user.text(key).empty()) user.refuse(key, what);
  if (user.find("exec")) user.refuse("exec", what);
  if (source_.fixed.insecure_skip_tls_verify || !source_.fixed.ca_pem.empty() ||
      !source_.ca_file.empty())
    cluster.note(Severity::warning, "server", "has no TLS, so nothing is verified with it");
}

void Reader::read_plugin(const Fields& exec) {
  ExecPlugin plugin;
  plugin.command = exec.text("command");
  if (plugin.command.empty()) exec.refuse("command", "is missing");
  // A name without "/" is looked up in PATH.
  if (plugin.command.find('/') != std::string::npos)
    plugin.command = resolve(path_, plugin.command);
  exec.each("args", [&](std::size_t, const api::JsonValue& argument) {
    if (const auto text = argument.text()) return plugin.arguments.push_back(std::string(*text));
    exec.refuse("args",
                fmt::format("must be a list of texts; {} is among them", api::kind_name(argument)));
  });
  exec.each_object("env", [&](const Fields& variable) {
    const auto name = variable.text("name");
    if (name.empty() || name.find('=') != std::string::npos)
      variable.refuse("name", "must be the name of an environment variable");
    plugin.environment.push_back(fmt::format("{}={}", name, variable.text("value")));
  });
  plugin.api_version = exec.text("apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1")
    exec.refuse("apiVersion",
                "must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1");
  read_plugin_mode(exec, plugin.api_version);
  plugin.provide_cluster_info = exec.boolean("provideClusterInfo", false);
  if (plugin.provide_cluster_info) plugin.cluster_config_json = plugin_config_;
  plugin.install_hint = exec.text("installHint");
  source_.exec = std::move(plugin);
}

void Reader::read_plugin_mode(const Fields& exec, const std::string& version) {
  const auto mode = exec.text("interactiveMode");
  if (mode == "Always")
    exec.refuse("interactiveMode",
                "is Always, but nobody sits in front of a daemon: use a plugin that needs no "
                "answers (Never or IfAvailable)");
  else if (mode.empty() ? version == "client.authentication.k8s.io/v1"
                        : mode != "Never" && mode != "IfAvailable")
    exec.refuse("interactiveMode", "must be Never or IfAvailable");
}

// The JSON parser's message repeats the text that it read last, which may be a secret.
std::string without_quotes(const std::string& message) {
  return message.substr(0, message.find("; last read"));
}

// Some members are read more than once.
void remove_repeats(api::Problems& problems) {
  api::Problems kept;
  for (auto& problem : problems)
    if (std::find(kept.begin(), kept.end(), problem) == kept.end())
      kept.push_back(std::move(problem));
  problems = std::move(kept);
}

}  // namespace

std::string server_fault(std::string_view url) {
  const auto is_plain = [](char c) {
    return std::isgraph(static_cast<unsigned char>(c)) != 0 &&
           std::string_view("\"<>\\^`{|}").find(c) == std::string_view::npos;
  };
  if (url.empty()) return "is missing: name the API server (https://HOST:PORT)";
  auto rest = url;
  for (const std::string_view scheme : {"https://", "http://"})
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  if (rest.size() == url.size()) return "must start with https:// (http:// where there is no TLS)";
  if (!std::all_of(url.begin(), url.end(), is_plain)) return "holds characters that no URL has";
  if (rest.find_first_of("?#@") != std::string_view::npos)
    return "must be no more than https://HOST[:PORT][/PATH]";
  const auto authority = rest.substr(0, std::min(rest.find('/'), rest.size()));
  auto host_end = authority.rfind(':');
  if (authority.starts_with('[')) {
    const auto bracket = authority.find(']');
    if (bracket == std::string_view::npos || bracket < 2) return "holds a broken IPv6 address";
    host_end = bracket + 1;
  }
  host_end = std::min(host_end, authority.size());
  const auto host = authority.substr(0, host_end);
  if (host.empty()) return "names no host";
  if (!host.starts_with('[') && host.find(':') != std::string_view::npos)
    return "must have an IPv6 address in brackets";
  if (host_end == authority.size()) return "";
  const auto port = authority.substr(host_end + 1);
  const bool good =
      authority[host_end] == ':' && netlink::parse_number<std::uint16_t>(port).value_or(0) != 0;
  return good ? "" : "has a port that is none";
}

AccessChoice read_kubeconfig_text(std::string_view text, const std::string& path,
                                  const std::string& master) {
  AccessChoice choice;
  auto parsed = api::parse_documents(text, path);
  for (auto& problem : parsed.problems) {
    problem.message = without_quotes(problem.message);
    choice.problems.push_back(std::move(problem));
  }
  if (has_error(choice.problems)) return choice;
  if (parsed.documents.size() != 1) {
    choice.problems.push_back(api::Problem{
        .origin = path,
        .message =
            fmt::format("holds {} documents; a kubeconfig is one", parsed.documents.size())});
    return choice;
  }
  const auto& document = parsed.documents.front();
  for (const auto& key : document.duplicates)
    choice.problems.push_back(api::Problem{.severity = api::Severity::warning,
                                           .origin = path,
                                           .field = key,
                                           .message = "is there twice; the last one counts"});
  api::Report report{.origin = document.origin, .problems = choice.problems, .hides_values = true};
  const Fields root(document.json.root(), report);
  if (!root.exists()) return choice;
  auto source = Reader(root, path, master).read();
  remove_repeats(choice.problems);
  if (!has_error(choice.problems)) choice.source = std::move(source);
  return choice;
}

}  // namespace ipvsproxier::access

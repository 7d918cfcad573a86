#pragma once

// ClusterAccess: how a request reaches the API server and says who we are. AccessSource: where the
// parts come from, some of which change while we run. Pure values.
//
// Certificates and keys are PEM text here, never file names: who reads a file also judges it, and
// two values that compare equal make equal connections. Nothing prints the secrets among them.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ipvsproxier::watch {

struct ClusterAccess {
  std::string server;  // "https://10.96.0.1:443" or with a path before the API's; no "/" at the end
  std::string
      proxy_url;  // http, https or socks5h; "": what the environment says (HTTPS_PROXY, NO_PROXY)
  std::string user_agent;

  std::string ca_pem;                     // "": the system's certificate authorities
  bool insecure_skip_tls_verify = false;  // asked for in the kubeconfig; never with ca_pem
  // The name that the server's certificate must have, and that is asked for (SNI); "": the server's
  // own. The Host header and the address stay the server's.
  std::string tls_server_name;

  std::string client_certificate_pem;  // with what follows it in its chain; "" without the key
  std::string client_key_pem;
  std::string bearer_token;  // "": none; never with an http server
  std::string username;      // basic authentication; "": none
  std::string password;

  friend bool operator==(const ClusterAccess&, const ClusterAccess&) = default;
};

// A command that prints credentials (client.authentication.k8s.io).
struct ExecPlugin {
  std::string command;  // a path, or a name that PATH leads to
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=VALUE", added to ours
  std::string api_version;               // "client.authentication.k8s.io/v1" or v1beta1
  bool provide_cluster_info = false;     // tell it of the cluster, and with that:
  std::string cluster_config_json;       // the cluster's extension for plugins; "": none
  std::string install_hint;              // what to do where there is no such command
  std::chrono::milliseconds time_limit = std::chrono::minutes(1);

  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

struct AccessSource {
  // "/etc/kubernetes/proxy.conf: user node", for messages.
  std::string origin;
  ClusterAccess fixed;  // what does not change; the rest is filled in by Credentials
  std::string ca_file;
  std::string token_file;  // its token counts as soon as it could be read once
  std::string client_certificate_file;
  std::string client_key_file;
  std::optional<ExecPlugin> exec;

  friend bool operator==(const AccessSource&, const AccessSource&) = default;
};

}  // namespace ipvsproxier::watch

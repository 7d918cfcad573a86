#pragma once

// ClusterAccess: how a request reaches the API server, and its credentials. AccessSource: where
// these values come from; some change while the process runs. Pure values.
//
// Certificates and keys are PEM text, not file names: the code that reads a file also checks it,
// and equal values make equal connections. Secrets among them are never printed.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ipvsproxier::access {

struct ClusterAccess {
  // "https://10.96.0.1:443", optionally with a path before the API's; no "/" at the end.
  std::string server;
  // http, https or socks5h; "": from the environment (HTTPS_PROXY, NO_PROXY).
  std::string proxy_url;
  std::string user_agent;

  std::string ca_pem;                     // "": the system's certificate authorities
  bool insecure_skip_tls_verify = false;  // set by the kubeconfig only; never with ca_pem
  // The name for TLS: it must be in the server's certificate and is sent as SNI; "": the server's
  // own name. The Host header and the address are not affected.
  std::string tls_server_name;

  std::string client_certificate_pem;  // with its chain; "" without the key
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
  bool provide_cluster_info = false;     // pass facts about the cluster to it, including:
  std::string cluster_config_json;       // the cluster's extension for plugins; "": none
  std::string install_hint;              // advice if the command does not exist
  std::chrono::milliseconds time_limit = std::chrono::minutes(1);

  friend bool operator==(const ExecPlugin&, const ExecPlugin&) = default;
};

struct AccessSource {
  // For messages: "/etc/kubernetes/proxy.conf: user node".
  std::string origin;
  ClusterAccess fixed;  // the constant values; Credentials fills in the others
  std::string ca_file;
  std::string token_file;  // used once it could be read
  std::string client_certificate_file;
  std::string client_key_file;
  std::optional<ExecPlugin> exec;

  friend bool operator==(const AccessSource&, const AccessSource&) = default;
};

}  // namespace ipvsproxier::access

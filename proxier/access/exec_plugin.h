#pragma once

// The messages to and from an exec credential plugin: ExecCredential objects of
// client.authentication.k8s.io, v1 and v1beta1. Pure. No error message repeats the plugin's output.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::access {

// The facts about the cluster for a plugin (provideClusterInfo).
struct ExecCluster {
  std::string server;
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string ca_pem;
  std::string proxy_url;
  std::string config_json;  // JSON on one line: the cluster's extension
                            // client.authentication.k8s.io/exec; "": none
};

// The value of KUBERNETES_EXEC_INFO. Without a cluster it only names the expected version and says
// that nobody can answer questions.
std::string exec_info(const std::string& api_version, const ExecCluster* cluster);

struct ExecCredential {
  std::string token;
  std::string client_certificate_pem;  // "" without the key
  std::string client_key_pem;
  std::optional<std::int64_t> expires;  // seconds since 1970 UTC
};

netlink::Result<ExecCredential> read_exec_credential(std::string_view output,
                                                     const std::string& api_version);

// Why a token cannot be used in a header; "" if it can.
std::string token_fault(std::string_view token);

}  // namespace ipvsproxier::access

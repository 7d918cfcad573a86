#pragma once

// Reads a kubeconfig: the API server's address and the credentials. Pure.
//
// Only the current context counts. Unsupported settings (auth-provider, impersonation, interactive
// plugins) and invalid ones are errors with advice; a setting that would weaken a connection is
// never skipped silently. No message shows a secret. Relative paths start at the kubeconfig's
// folder.

#include <optional>
#include <string>
#include <string_view>

#include "proxier/access/cluster_access.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::access {

struct AccessChoice {
  std::optional<AccessSource> source;  // nullopt: the problems say why
  api::Problems problems;
};

// `text` (YAML or JSON) was read from `path`. `master`, unless "", replaces the server, and also
// removes tls-server-name, which belongs to the replaced server.
AccessChoice read_kubeconfig_text(std::string_view text, const std::string& path,
                                  const std::string& master);

// Why a text is no valid URL of an API server; "" if it is. Valid is https://HOST[:PORT][/PATH],
// with an IPv6 host in brackets; http only if it is written.
std::string server_fault(std::string_view url);

}  // namespace ipvsproxier::access

#pragma once

// A kubeconfig -> where the API server is and who we are. Pure.
//
// The current context counts, nothing else is looked at. What is not supported (auth-provider,
// impersonation, plugins that ask questions) or makes no sense is an error that says what to do;
// nothing that would weaken a connection is ever skipped silently. No message shows a secret.
// Relative paths are those of the kubeconfig's folder.

#include <optional>
#include <string>
#include <string_view>

#include "proxier/api/problem.h"
#include "proxier/watch/cluster_access.h"

namespace ipvsproxier::watch {

struct AccessChoice {
  std::optional<AccessSource> source;  // none: the problems say why
  api::Problems problems;
};

// Text, YAML or JSON, that was read from `path`. `master` replaces the server, and with it goes
// tls-server-name, which was the other's; "": none.
AccessChoice read_kubeconfig_text(std::string_view text, const std::string& path,
                                  const std::string& master);

// What is wrong with the URL of an API server, "" if nothing is. Wanted is
// https://HOST[:PORT][/PATH], an IPv6 host in brackets; http only where it is asked for.
std::string server_fault(std::string_view url);

}  // namespace ipvsproxier::watch

#pragma once

// A kubeconfig for a client of the test API server.

#include <string>

namespace ipvsproxier::test {

// PEM where a certificate or key is meant; empty: not there.
struct KubeconfigParts {
  std::string server;
  std::string authority;
  std::string token;
  std::string token_file;  // a path
  std::string certificate;
  std::string key;
};

std::string kubeconfig(const KubeconfigParts& parts);

}  // namespace ipvsproxier::test

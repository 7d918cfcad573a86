#pragma once

// The files that an AccessSource names, read and judged. Plain file I/O on the caller's thread.

#include <optional>
#include <string>

#include "proxier/api/problem.h"
#include "proxier/watch/cluster_access.h"

namespace ipvsproxier::watch {

// What is there could be read and makes sense; what is wrong with the others is among the problems,
// whose origin is the file.
struct AccessFiles {
  struct KeyPair {
    std::string certificate_pem;
    std::string key_pem;
  };

  std::optional<std::string> ca_pem;
  std::optional<std::string> token;  // without the blanks around it
  std::optional<KeyPair> key_pair;   // one half may come from the source itself
  api::Problems problems;
};

AccessFiles read_access_files(const AccessSource& source);

}  // namespace ipvsproxier::watch

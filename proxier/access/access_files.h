#pragma once

// Reads and checks the files that an AccessSource names. Plain file I/O on the caller's thread.

#include <optional>
#include <string>

#include "proxier/access/cluster_access.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::access {

// The contents that are present were readable and valid; the faults of other files are problems
// with the file as origin.
struct AccessFiles {
  struct KeyPair {
    std::string certificate_pem;
    std::string key_pem;
  };

  std::optional<std::string> ca_pem;
  std::optional<std::string> token;  // without surrounding blanks
  std::optional<KeyPair> key_pair;   // one half may come from the source itself
  api::Problems problems;
};

AccessFiles read_access_files(const AccessSource& source);

}  // namespace ipvsproxier::access

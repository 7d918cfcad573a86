#pragma once

// Problems as text lines, so that a test compares all that a person would read.

#include <string>
#include <vector>

#include "proxier/api/problem.h"

namespace ipvsproxier::test {

// "error: origin: object: field: message"
inline std::vector<std::string> lines_of(const api::Problems& problems) {
  std::vector<std::string> lines;
  for (const auto& problem : problems)
    lines.push_back((problem.severity == api::Severity::error ? "error: " : "warning: ") +
                    api::to_string(problem));
  return lines;
}

}  // namespace ipvsproxier::test

#include "proxier/api/problem.h"

namespace ipvsproxier::api {

std::string to_string(const Problem& problem) {
  std::string text;
  for (const auto* part : {&problem.origin, &problem.object, &problem.field, &problem.message}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += *part;
  }
  return text;
}

}  // namespace ipvsproxier::api

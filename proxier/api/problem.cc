#include "proxier/api/problem.h"

#include <algorithm>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::api {

bool has_error(const Problems& problems) {
  return std::any_of(problems.begin(), problems.end(),
                     [](const Problem& problem) { return problem.severity == Severity::error; });
}

std::string_view namespace_of(const Problem& problem) {
  const std::string_view object = problem.object;
  const auto begin = object.find(' ');
  const auto end = object.find('/');
  if (begin >= end || end == std::string_view::npos) return {};
  return object.substr(begin + 1, end - begin - 1);
}

std::string to_string(const Problem& problem) {
  std::string text;
  for (const auto* part : {&problem.origin, &problem.object, &problem.field, &problem.message}) {
    if (part->empty()) continue;
    if (!text.empty()) text += ": ";
    text += visible(*part);
  }
  return text;
}

}  // namespace ipvsproxier::api

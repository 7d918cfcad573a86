#include "proxier/watch/resource_version.h"

#include <algorithm>

namespace ipvsproxier::watch {

namespace {

bool is_number(std::string_view version) {
  return !version.empty() && version.front() != '0' &&
         std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::strong_ordering> compare_versions(std::string_view left,
                                                     std::string_view right) {
  if (!is_number(left) || !is_number(right)) return std::nullopt;
  if (left.size() != right.size()) return left.size() <=> right.size();
  return left <=> right;
}

bool is_old(std::string_view left, std::string_view right) {
  const auto order = compare_versions(left, right);
  return order && *order <= 0;
}

}  // namespace ipvsproxier::watch

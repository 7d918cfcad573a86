#include "proxier/watch/resource_version.h"

#include <algorithm>

#include <fmt/format.h>

namespace ipvsproxier::watch {

namespace {

constexpr unsigned kProof = 2;

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

std::optional<Ending> OlderAnswers::objection(std::string_view known, std::string_view version) {
  const auto order = compare_versions(version, known);
  in_a_row_ = order && *order < 0 ? in_a_row_ + 1 : 0;
  if (in_a_row_ == 0) return std::nullopt;
  return Ending{in_a_row_ < kProof ? Trouble::older : Trouble::expired,
                fmt::format("the server went back from version {} to {}", known, version),
                {}};
}

}  // namespace ipvsproxier::watch

#include "proxier/watch/older_answers.h"

#include <fmt/format.h>

#include "proxier/watch/resource_version.h"

namespace ipvsproxier::watch {

namespace {

constexpr unsigned kProof = 2;

}  // namespace

std::optional<Ending> OlderAnswers::objection(std::string_view known, std::string_view version) {
  const auto order = compare_versions(version, known);
  in_a_row_ = order && *order < 0 ? in_a_row_ + 1 : 0;
  if (in_a_row_ == 0) return std::nullopt;
  return Ending{in_a_row_ < kProof ? Trouble::older : Trouble::expired,
                fmt::format("the server went back from version {} to {}", known, version),
                {}};
}

}  // namespace ipvsproxier::watch

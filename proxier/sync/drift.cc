#include "proxier/sync/drift.h"

#include <set>
#include <string>
#include <utility>

#include "proxier/plan/diff.h"

namespace ipvsproxier::sync {

namespace {

constexpr std::size_t kTold = 20;  // repairs with a line of their own

std::set<std::string> lines_of(const plan::Transaction& transaction) {
  std::set<std::string> lines;
  const std::string text = plan::to_text(transaction);
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    if (text[begin] == ' ') lines.insert(text.substr(begin + 2, end - begin - 2));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::size_t Drift::take(const plan::DesiredState& desired, const plan::Scope& differs,
                        const plan::Mirror::Reading& reading, plan::Mirror& mirror) {
  if (differs == plan::Scope{}) {
    mirror.take(reading);
    return 0;
  }
  const auto before = lines_of(plan::diff(desired, mirror.state(), differs));
  mirror.take(reading);
  auto repairs = lines_of(plan::diff(desired, mirror.state(), differs));
  for (const auto& line : before) repairs.erase(line);
  for (const auto& line : repairs)
    if (count_++ < kTold) logger_.warn("others changed the kernel; repairing: {}", line);
  return repairs.size();
}

void Drift::end() {
  const auto count = std::exchange(count_, 0);
  if (count > kTold) logger_.warn("others changed the kernel; {} more repairs", count - kTold);
}

}  // namespace ipvsproxier::sync

#include "proxier/sync/sync_report.h"

#include <fmt/format.h>

namespace ipvsproxier::sync {

bool SyncReport::empty() const {
  return problems == 0 && failures == 0 && written == Written{} && sysctls == 0 && flows == 0;
}

std::string to_string(const SyncReport& report) {
  const auto& written = report.written;
  auto text = fmt::format(
      "ipvs {}, links {}, addresses {}, elements {}, sets {}, rule tables {}, sysctls {}, flows "
      "{}, failures {}",
      written.ipvs, written.links, written.addresses, written.elements, written.sets,
      written.rule_tables, report.sysctls, report.flows, report.failures + report.problems);
  return report.refused == 0 ? text : text + fmt::format(", refused {}", report.refused);
}

}  // namespace ipvsproxier::sync

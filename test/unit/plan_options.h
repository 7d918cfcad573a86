#pragma once

#include "proxier/plan/planner.h"

namespace ipvsproxier::test {

// Of IPv4 alone.
inline plan::PlannerOptions options_v4() {
  plan::PlannerOptions options;
  options.families = {netlink::Family::ipv4};
  return options;
}

}  // namespace ipvsproxier::test

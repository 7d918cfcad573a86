#pragma once

// Completion values for ipvsctl's options and arguments from this node and its daemon. Asking the
// daemon may take a moment; without a daemon or permission there are no Services.

#include "cmd/ipvsctl/completion.h"

namespace ipvsproxier::ctl {

// `type`: "SET", "LINK", "NAMESPACE" or "SERVICE".
std::vector<std::string> completion_values(std::string_view type, std::string_view begun);

}  // namespace ipvsproxier::ctl

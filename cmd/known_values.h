#pragma once

// Values of ipvsctl's options and arguments that this node and its daemon know, for completion.
// Asks the daemon, which may take a moment; without one, or without permission, it knows no
// Services.

#include "cmd/completion.h"

namespace ipvsproxier::cmd {

// "SET", "LINK", "NAMESPACE", "SERVICE".
std::vector<std::string> known_values(std::string_view type, std::string_view begun);

}  // namespace ipvsproxier::cmd

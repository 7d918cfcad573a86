#pragma once

// For tests of other programs on the node: what they leave in the kernel, in text.

#include <string>

#include "test/kernel/netns.h"

namespace ipvsproxier::test {

// What the command prints in the namespace, whether it succeeds or not.
inline std::string printed_in(const Netns& netns, const std::string& command) {
  return netns.inside([&] { return shell("{ " + command + "\n} 2>&1; true"); });
}
inline std::string virtual_services_in(const Netns& netns) {
  return printed_in(netns, "ipvsadm-save -n | LC_ALL=C sort");
}
inline bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace ipvsproxier::test

#pragma once

// The configuration that the running kernel was built with, and the options behind its modules.

#include <string>
#include <string_view>

#include "proxier/check/facts.h"
#include "proxier/check/files.h"

namespace ipvsproxier::check {

// The options of a configuration file's text. Pure.
KernelConfig parse_kernel_config(std::string_view text, std::string origin);

// Looks where distributions put it: /proc/config.gz, /boot/config-RELEASE,
// /lib/modules/RELEASE/config. Not known if there is none.
KernelConfig read_kernel_config(const HostPaths& paths, const std::string& release);

// The option of a module, as in Linux 6.1: "ip_vs_rr" -> "CONFIG_IP_VS_RR"; "" for one that is not
// ours.
std::string option_of(std::string_view module);

}  // namespace ipvsproxier::check

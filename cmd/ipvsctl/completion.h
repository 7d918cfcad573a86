#pragma once

// Shell completion: the answers of `ipvsctl complete`, and the scripts that ask for them.

#include "cmd/command_line.h"

namespace ipvsproxier::ctl {

// A line for each candidate for the last of `words`, which may be "": the word, a tab, what it is.
// `daemon`: the flags of commands that allow extras. May ask the kernel and the daemon for names.
std::string complete(const CLI::App& app, const CLI::App& daemon,
                     const std::vector<std::string>& words);
// For "bash", "zsh" and "fish". Without a candidate they offer file names.
std::string_view completion_script(std::string_view shell);
}  // namespace ipvsproxier::ctl

#pragma once

// Makes untrusted text (objects of the cluster, answers of a server, kernel state of other
// programs) safe for a terminal and a log: it cannot act as a command or imitate further log lines.
// Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>

namespace ipvsproxier::api {

// One line of UTF-8. Control characters (C0, DEL, C1), line separators, direction marks and
// characters without width are written as JSON escapes ("\n", "\u001b"), invalid UTF-8 as "\xff".
// All other characters stay, including backslashes, so that JSON keeps its meaning.
std::string visible(std::string_view text);

// The same for text with several lines: "\n" stays.
std::string visible_lines(std::string_view text);

// The same for YAML, which writes characters beyond U+FFFF without surrogate pairs: "\U000e0041".
std::string visible_yaml(std::string_view text);

// At most the first or last `most` bytes; never cuts a character in two.
std::string_view head_of(std::string_view text, std::size_t most);
std::string_view tail_of(std::string_view text, std::size_t most);

}  // namespace ipvsproxier::api

#pragma once

// Text from outside, such as objects of the cluster, answers of a server, what the kernel holds for
// others, made fit for a terminal and for a log, where it could act as a command or look like lines
// that are not its own. Pure; any thread.

#include <cstddef>
#include <string>
#include <string_view>

namespace ipvsproxier::api {

// One line of UTF-8 that shows all that is in it: control characters (C0, DEL, C1), separators of
// lines, what turns the direction of writing and what has no width stand there as JSON writes them
// ("\n", "\u001b"), bytes that are no UTF-8 as "\xff". Everything else stays as it is, backslashes
// too: what is visible is left alone, and JSON keeps its meaning.
std::string visible(std::string_view text);

// The same for text of several lines: "\n" stays.
std::string visible_lines(std::string_view text);

// The same for YAML, which has no pairs of surrogates for what is beyond U+FFFF: "\U000e0041".
std::string visible_yaml(std::string_view text);

// Its first and its last `most` bytes at most, not cut in the middle of a character.
std::string_view head_of(std::string_view text, std::size_t most);
std::string_view tail_of(std::string_view text, std::size_t most);

}  // namespace ipvsproxier::api

#pragma once

// Shell completion: the answers of `ipvsctl complete`, and the completion scripts for bash, zsh and
// fish. Pure, except for values_of_type().

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ipvsproxier::ctl {

struct Completion {
  std::string word;
  std::string about;  // description; may be ""

  bool operator==(const Completion&) const = default;
};

// Returns the values for an option or argument of a type ("SET", "CHAIN", "LINK", "NAMESPACE",
// "SERVICE"); `begun` is the typed part.
using KnownValues =
    std::function<std::vector<std::string>(std::string_view type, std::string_view begun)>;

// The values on this node and those that its daemon knows: names of sets, chains, links, namespaces
// and Services. Asking the daemon may take a moment; without a daemon or permission there are no
// Services.
std::vector<std::string> values_of_type(std::string_view type, std::string_view begun);

// A special answer instead of candidates: complete file names.
inline constexpr const char* kFilesAreMeant = ":files";

// Candidates for the last of `words`, which follow the program's name; the last word may be empty.
// `daemon` holds the flags for commands that accept the daemon's flags (commands that allow
// extras).
std::vector<Completion> complete(const CLI::App& app, const CLI::App& daemon,
                                 const std::vector<std::string>& words, const KnownValues& known);

// One line for each candidate: the word, a tab, the description.
std::string candidates_text(const std::vector<Completion>& candidates);

// For "bash", "zsh" and "fish"; "" for others.
std::string completion_script(std::string_view shell);

}  // namespace ipvsproxier::ctl

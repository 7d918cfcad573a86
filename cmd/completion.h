#pragma once

// What `ipvsctl complete` answers to a shell whose user presses Tab, and the scripts by which bash,
// zsh and fish come to ask. Pure, but for the values that somebody else knows.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ipvsproxier::cmd {

struct Candidate {
  std::string word;
  std::string about;  // "": nothing to say of it

  bool operator==(const Candidate&) const = default;
};

// Values that an option or argument of a type ("SET", "LINK", "NS/NAME") can have; `begun` is what
// is typed of it.
using KnownValues =
    std::function<std::vector<std::string>(std::string_view type, std::string_view begun)>;

// Instead of candidates: the names of files.
inline constexpr const char* kFilesAreMeant = ":files";

// What the last of `words` can become; they stand behind the program's name, the last may be empty.
// `daemon` has the flags that a command that takes the daemon's flags (its extras are allowed)
// takes.
std::vector<Candidate> complete(const CLI::App& app, const CLI::App& daemon,
                                const std::vector<std::string>& words, const KnownValues& known);

// A line each: the word, and behind a tab what it is about.
std::string candidates_text(const std::vector<Candidate>& candidates);

// For "bash", "zsh", "fish"; "" for others.
std::string completion_script(std::string_view shell);

}  // namespace ipvsproxier::cmd

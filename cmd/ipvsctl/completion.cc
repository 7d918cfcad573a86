#include "cmd/ipvsctl/completion.h"

#include <net/if.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/kernel_tables.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

namespace {

using Candidates = std::vector<Completion>;

constexpr auto kBash = R"sh(# ipvsctl's completion for bash: eval "$(ipvsctl completion bash)"
_ipvsctl() {
  # Not COMP_WORDS: bash cuts addresses and --flag=value there. It replaces what is behind the cut.
  local line=${COMP_LINE:0:COMP_POINT} words current kept candidate
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  current=${words[${#words[@]} - 1]}
  kept=${current%"${current##*[:=]}"}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    if [ "$candidate" = :files ]; then
      compopt -o default
    else
      COMPREPLY+=("${candidate#"$kept"}")
    fi
  done < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _ipvsctl ipvsctl
)sh";

constexpr auto kZsh = R"sh(#compdef ipvsctl
# ipvsctl's completion for zsh: source <(ipvsctl completion zsh), behind compinit
_ipvsctl() {
  local -a candidates
  local line
  for line in "${(@f)$(${words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :files ]]; then
      _files
      return
    elif [[ $line == *$'\t'* ]]; then
      candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    elif [[ -n $line ]]; then
      candidates+=("${line//:/\\:}")
    fi
  done
  _describe ipvsctl candidates
}
if [[ ${funcstack[1]} == _ipvsctl ]]; then _ipvsctl "$@"; else compdef _ipvsctl ipvsctl; fi
)sh";

constexpr auto kFish = R"sh(# ipvsctl's completion for fish: ipvsctl completion fish | source
function __ipvsctl_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete -- $words[2..-1] 2>/dev/null)
    if test "$found" = :files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $found
    end
end
complete -c ipvsctl -f -a '(__ipvsctl_candidates)'
)sh";

bool begins_with(std::string_view text, std::string_view begun) {
  return text.substr(0, begun.size()) == begun;
}

bool wants_value(const CLI::Option& option) {
  return option.get_type_size() != 0;
}

// The type name as in --help: "FORM:{json,yaml}".
struct ValueType {
  std::string_view name;
  std::vector<std::string> choices;
};

ValueType value_type(const CLI::Option& option, const std::string& text) {
  ValueType type{.name = std::string_view(text).substr(0, text.find(':')), .choices = {}};
  const auto open = text.find('{');
  const auto close = text.find('}');
  if (open == std::string::npos || close == std::string::npos || !wants_value(option)) return type;
  type.choices = CLI::detail::split(text.substr(open + 1, close - open - 1), ',');
  return type;
}

// `before` is put in front of each value: "--output=".
Candidates values_of(const CLI::Option& option, const std::string& before, std::string_view begun,
                     const KnownValues& known) {
  const auto text = option.get_type_name();
  const auto type = value_type(option, text);
  if (before.empty() && (type.name == "FILE" || type.name == "PATH"))
    return {{.word = kFilesAreMeant, .about = {}}};
  Candidates found;
  for (const auto& choice : type.choices.empty() ? known(type.name, begun) : type.choices)
    if (begins_with(choice, begun)) found.push_back({.word = before + choice, .about = {}});
  return found;
}

// Long names only, because they explain themselves.
Candidates flags_of(const CLI::App& app, std::string_view begun) {
  Candidates found;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames())
      if (const auto word = "--" + name; begins_with(word, begun) && !option->get_group().empty())
        found.push_back({.word = word, .about = option->get_description()});
  return found;
}

Candidates commands_of(const CLI::App& app, std::string_view begun) {
  Candidates found;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (begins_with(command->get_name(), begun) && !command->get_group().empty())
      found.push_back({.word = command->get_name(), .about = command->get_description()});
  return found;
}

// The command's flags, and those of the daemon if the command accepts them.
struct Flags {
  const CLI::App* command;
  const CLI::App* daemon;  // nullptr: not accepted

  const CLI::Option* find(const std::string& word) const {
    const auto name = word.substr(0, word.find('='));
    const auto* option = command->get_option_no_throw(name);
    return option == nullptr && daemon != nullptr ? daemon->get_option_no_throw(name) : option;
  }
};

bool is_flag(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

// The number of arguments so far, and the flag that waits for a value, if any.
struct Reading {
  std::size_t arguments = 0;
  const CLI::Option* waiting = nullptr;
};

Reading read(const Flags& flags, const std::vector<std::string>& words, std::size_t first) {
  Reading reading;
  for (auto i = first; i + 1 < words.size(); ++i) {
    if (reading.waiting != nullptr) {
      reading.waiting = nullptr;
    } else if (!is_flag(words[i])) {
      ++reading.arguments;
    } else if (const auto* option = flags.find(words[i]); option != nullptr &&
                                                          wants_value(*option) &&
                                                          words[i].find('=') == std::string::npos) {
      reading.waiting = option;
    }
  }
  return reading;
}

Candidates arguments_of(const CLI::App& command, std::size_t nth, std::string_view begun,
                        const KnownValues& known) {
  for (const auto* option : command.get_options())
    if (option->get_positional() && (nth-- == 0 || option->get_items_expected_max() > 1))
      return values_of(*option, "", begun, known);
  return {};
}

// --- values from this node and its daemon

// Without the privilege to look the names are those of iptables.
ipset::PacketFilter filter_in_use() {
  const auto programmed = cmd::open_programmed_filter();
  return programmed ? programmed->filter : ipset::PacketFilter::iptables;
}

std::vector<std::string> set_names(ipset::PacketFilter filter) {
  std::vector<std::string> names;
  for (const auto family : {netlink::Family::ipv4, netlink::Family::ipv6})
    for (const auto id : ipset::sets_of(filter)) {
      // Those of nf_tables have blanks, see set_name_of().
      auto name = ipset::set_name(id, family);
      std::ranges::replace(name, ' ', '/');
      names.push_back(std::move(name));
    }
  return names;
}

std::vector<std::string> chain_names(ipset::PacketFilter filter) {
  std::set<std::string> names;
  for (const auto& table : ipset::rules_for(filter, netlink::Family::ipv4, {})) {
    for (const auto& chain : table.chains) names.insert(chain.name);
    for (const auto& jump : table.jumps) names.insert(jump.from);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> link_names() {
  const std::unique_ptr<struct if_nameindex[], decltype(&::if_freenameindex)> links(
      ::if_nameindex(), &::if_freenameindex);
  std::vector<std::string> names;
  for (const auto* link = links.get(); link != nullptr && link->if_index != 0; ++link)
    names.emplace_back(link->if_name);
  return names;
}

// Of Services with a virtual service.
std::vector<std::string> service_names(bool namespaces_only) {
  ControlClient daemon(cmd::kControlSocket);
  const auto known = names_of_daemon(daemon);
  if (!known) return {};
  std::set<std::string> names;
  for (const auto& [key, one] : known->virtuals()) {
    const auto name = *known->of(key);
    names.insert(namespaces_only ? std::string(name.ns)
                                 : std::string(name.ns) + "/" + std::string(name.service));
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> values_on_this_node(std::string_view type) {
  if (type == "SET") return set_names(filter_in_use());
  if (type == "CHAIN") return chain_names(filter_in_use());
  if (type == "LINK") return link_names();
  if (type == "NAMESPACE" || type == "SERVICE") return service_names(type == "NAMESPACE");
  return {};
}

// Shells insert values unquoted, so only plain characters are safe.
bool is_plain_word(std::string_view word) {
  return std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:@").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> values_of_type(std::string_view type, std::string_view /*begun*/) {
  auto values = values_on_this_node(type);
  std::erase_if(values, [](const std::string& value) { return !is_plain_word(value); });
  return values;
}

Candidates complete(const CLI::App& app, const CLI::App& daemon,
                    const std::vector<std::string>& words, const KnownValues& known) {
  if (words.empty()) return {};
  const auto& begun = words.back();
  const auto at = std::find_if_not(words.begin(), words.end() - 1, is_flag);
  if (at == words.end() - 1)
    return is_flag(begun) || begun == "-" ? flags_of(app, begun) : commands_of(app, begun);
  const auto named =
      app.get_subcommands([&](const CLI::App* one) { return one->get_name() == *at; });
  if (named.empty()) return {};
  const auto* command = named.front();
  const Flags flags{.command = command, .daemon = command->get_allow_extras() ? &daemon : nullptr};
  const auto reading = read(flags, words, static_cast<std::size_t>(at - words.begin()) + 1);
  if (reading.waiting != nullptr) return values_of(*reading.waiting, "", begun, known);
  if (const auto equals = begun.find('='); is_flag(begun) && equals != std::string::npos) {
    const auto* option = flags.find(begun);
    const std::string_view value = std::string_view(begun).substr(equals + 1);
    return option == nullptr ? Candidates{}
                             : values_of(*option, begun.substr(0, equals + 1), value, known);
  }
  if (begun.empty() || begun.front() != '-')
    return arguments_of(*command, reading.arguments, begun, known);
  auto found = flags_of(*command, begun);
  if (flags.daemon != nullptr)
    std::ranges::move(flags_of(daemon, begun), std::back_inserter(found));
  return found;
}

std::string candidates_text(const Candidates& candidates) {
  std::string text;
  for (const auto& [word, about] : candidates) {
    text.append(word);
    if (!about.empty()) text.append("\t").append(about);
    text.push_back('\n');
  }
  return text;
}

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : "";
}

}  // namespace ipvsproxier::ctl

#include "cmd/ipvsctl/completion.h"

#include <net/if.h>

#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>

#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/kernel_tables.h"

namespace ipvsproxier::ctl {
namespace {
constexpr std::string_view kBash = R"sh(# eval "$(ipvsctl completion bash)"
_ipvsctl() {  # not by COMP_WORDS: bash cuts words at : and =, and replaces what follows the cut
  local words line=${COMP_LINE:0:COMP_POINT}
  local current=${line##*[[:space:]]}
  local kept=${current%"${current##*[:=]}"}
  read -ra words <<<"${line%"$current"}"
  mapfile -t COMPREPLY < <("${words[0]}" complete -- "${words[@]:1}" "$current" | cut -f 1)
  COMPREPLY=("${COMPREPLY[@]#"$kept"}")
} 2>/dev/null
complete -o default -F _ipvsctl ipvsctl
)sh";
constexpr std::string_view kZsh = R"sh(#compdef ipvsctl
# source <(ipvsctl completion zsh), after compinit
_ipvsctl() {
  local -a candidates
  candidates=(${(f)"$(${words[1]} complete -- "${(@)words[2,CURRENT]}" | sed 's/:/\\:/g;s/\t/:/')"})
  _describe ipvsctl candidates || _files
} 2>/dev/null
if [[ ${funcstack[1]} == _ipvsctl ]]; then _ipvsctl "$@"; else compdef _ipvsctl ipvsctl; fi
)sh";
constexpr std::string_view kFish = R"sh(# ipvsctl completion fish | source
function __ipvsctl_candidates
    ipvsctl complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null | string match -r .+
    or __fish_complete_path (commandline -ct)
end
complete -c ipvsctl -f -a '(__ipvsctl_candidates)'
)sh";

// The values of a type as in --help ("LINK", "FORM:{json,yaml}"). The daemon names the Services.
std::set<std::string> values_of(const std::string& type) {
  std::set<std::string> names;
  if (const auto open = type.find('{') + 1; open != 0) {
    const auto all = CLI::detail::split(type.substr(open, type.find('}') - open), ',');
    names.insert(all.begin(), all.end());
  } else if (type == "LINK") {
    auto* const links = ::if_nameindex();
    for (const auto* link = links; link != nullptr && link->if_index != 0; ++link)
      names.insert(link->if_name);
    if (links != nullptr) ::if_freenameindex(links);
  } else if (type == "NAMESPACE" || type == "SERVICE") {
    ControlClient daemon(cmd::kControlSocket);
    if (const auto known = names_of_daemon(daemon))
      for (const auto& [key, one] : known->virtuals()) {
        const auto name = to_string(*known->of(key));  // "shop/web:http"
        names.insert(name.substr(0, name.find_first_of(type == "SERVICE" ? ":" : "/")));
      }
  } else if (type == "SET" || type == "CHAIN") {
    const auto programmed = cmd::open_programmed_filter();  // fails without privileges
    const auto filter = programmed ? programmed->filter : ipset::PacketFilter::iptables;
    for (const auto family : netlink::kFamilies)
      for (const auto id : ipset::sets_of(filter))
        if (type == "SET") names.insert(ipset::set_name(id, family));
    for (const auto& table : ipset::rules_for(filter, netlink::Family::ipv4, {}))
      for (const auto& chain : table.chains)
        if (type == "CHAIN") names.insert(chain.name);
  }
  return names;
}

struct Candidates {
  std::string begun;
  std::string text = {};

  void offer(std::string word, const std::string& about) {
    std::ranges::replace(word, ' ', '/');  // in names of sets of nf_tables, see set_name_of()
    // Shells insert words unquoted, so that only plain characters are safe.
    constexpr auto kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=";
    if (word.starts_with(begun) && word.find_first_not_of(kPlain) == std::string::npos)
      text += word + "\t" + about + "\n";
  }
  void offer_flags(const CLI::App& app) {  // long names, because they explain themselves
    for (const auto* option : app.get_options())
      for (const auto& name : option->get_lnames())
        if (!option->get_group().empty()) offer("--" + name, option->get_description());
  }
  // `before` is put in front of each value: "--output=".
  void offer_values(const CLI::Option& option, const std::string& before) {
    for (const auto& value : values_of(option.get_type_name())) offer(before + value, "");
  }
};

}  // namespace

std::string complete(const CLI::App& app, const CLI::App& daemon,
                     const std::vector<std::string>& words) {
  const auto is_flag = [](const std::string& word) { return word.starts_with('-'); };
  const auto last = words.end() - 1;
  const auto at = std::find_if_not(words.begin(), last, is_flag);
  const auto* command = &app;
  for (const auto* one : app.get_subcommands({}))
    if (at != last && one->check_name(*at)) command = one;
  const auto option_of = [&](const std::string& word) {
    const auto name = word.substr(0, word.find('='));
    const auto* option = is_flag(word) ? command->get_option_no_throw(name) : nullptr;
    const bool takes_all = option == nullptr && command->get_allow_extras();
    return takes_all ? daemon.get_option_no_throw(name) : option;
  };
  Candidates found{.begun = *last};
  const auto* before = at == last ? nullptr : option_of(last[-1]);
  if (before != nullptr && before->get_type_size() != 0 && last[-1].find('=') == last->npos) {
    found.offer_values(*before, "");
  } else if (const auto* option = option_of(*last);
             option != nullptr && last->find('=') != last->npos) {
    found.offer_values(*option, last->substr(0, last->find('=') + 1));
  } else if (is_flag(*last)) {
    found.offer_flags(*command);
    if (command->get_allow_extras()) found.offer_flags(daemon);
  } else {
    for (const auto* one : command->get_subcommands({}))
      if (!one->get_group().empty()) found.offer(one->get_name(), one->get_description());
    for (const auto* argument : command->get_options())
      if (argument->get_positional()) found.offer_values(*argument, "");
  }
  return found.text;
}

std::string_view completion_script(std::string_view shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace ipvsproxier::ctl

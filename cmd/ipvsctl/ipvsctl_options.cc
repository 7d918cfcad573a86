#include "cmd/ipvsctl/ipvsctl_options.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/completion.h"
#include "cmd/ipvsctl/explain/explain_options.h"
#include "cmd/ipvsctl/listing/list_options.h"
#include "cmd/ipvsctl/top/top_options.h"

namespace ipvsproxier::ctl {

namespace {

// Returns the command after parsing. Throws a CLI::ParseError for its mistakes.
using Make = std::function<CtlCommand()>;

const std::map<std::string, SetFormat> kSetFormats = {{"json", SetFormat::json},
                                                      {"yaml", SetFormat::yaml}};

void add_form(CLI::App& command, SetFormat& format) {
  command
      .add_option_function<std::string>(
          "-o,--output", [&format](const std::string& form) { format = kSetFormats.at(form); },
          "Form: json or yaml")
      ->check(CLI::IsMember(kSetFormats))
      ->type_name("FORM");
}

Make add_diff(CLI::App& command) {
  const auto options = std::make_shared<DiffOptions>(DiffOptions{.socket = cmd::kControlSocket});
  add_socket(command, options->socket);
  add_json(command, options->json);
  return [options] { return *options; };
}

// Flags that the command does not know are the daemon's.
Make add_plan(CLI::App& command) {
  const auto options = std::make_shared<PlanOptions>();
  command
      .add_option("--kubeconfig", options->kubeconfig,
                  "Ask this API server, instead of the configuration's")
      ->type_name("FILE");
  add_json(command, options->json);
  command.allow_extras();
  command.footer("All other flags are those of ipvs-proxier: --config, --manifests, ...");
  return [options, &command] {
    options->arguments = command.remaining();
    return *options;
  };
}

// Flags that the command does not know are the daemon's.
Make add_check(CLI::App& command) {
  const auto options =
      std::make_shared<CheckOptions>(CheckOptions{.arguments = {}, .socket = cmd::kControlSocket});
  add_socket(command, options->socket);
  add_json(command, options->json);
  command.allow_extras();
  command.footer(
      "All other flags are those of an ipvs-proxier that shall run here: --config, --manifests, "
      "...\nWithout any, those of the one that runs count.");
  return [options, &command] {
    options->arguments = command.remaining();
    return *options;
  };
}

Make add_status(CLI::App& command) {
  const auto options =
      std::make_shared<StatusOptions>(StatusOptions{.socket = cmd::kControlSocket});
  add_socket(command, options->socket);
  add_json(command, options->json);
  command
      .add_option("--probe", options->probe,
                  "Only whether the daemon moves (livez) or the kernel is right too (healthz)")
      ->check(CLI::IsMember({"livez", "healthz"}))
      ->type_name("PATH");
  return [options] { return *options; };
}

// Adds --control-socket, for names, and the flag to show numbers only.
void add_names(CLI::App& command, bool& names, std::string& socket) {
  socket = cmd::kControlSocket;
  add_socket(command, socket);
  command.add_flag_callback(
      "-n,--numeric", [&names] { names = false; }, "Numbers alone: no names of the cluster");
}

Make add_sets(CLI::App& command) {
  const auto options = std::make_shared<SetsOptions>();
  command.add_option("name", options->name, "The set whose elements are listed")->type_name("SET");
  add_form(command, options->format);
  add_names(command, options->names, options->socket);
  return [options] { return *options; };
}

const std::map<std::string, RuleForm> kRuleForms = {
    {"json", RuleForm::json}, {"yaml", RuleForm::yaml}, {"save", RuleForm::save}};
const std::map<std::string, ipset::Table> kTableNames = {{"filter", ipset::Table::filter},
                                                         {"nat", ipset::Table::nat},
                                                         {"mangle", ipset::Table::mangle},
                                                         {"kube-ipvs", ipset::Table::kube_ipvs}};

void add_family(CLI::App& command, std::optional<netlink::Family>& family) {
  const auto choose = [&family](netlink::Family chosen) {
    if (family) throw CLI::ValidationError("-4 and -6 exclude each other");
    family = chosen;
  };
  command.add_flag_callback(
      "-4,--ipv4", [choose] { choose(netlink::Family::ipv4); }, "IPv4 alone");
  command.add_flag_callback(
      "-6,--ipv6", [choose] { choose(netlink::Family::ipv6); }, "IPv6 alone");
}

Make add_rules(CLI::App& command) {
  const auto style = std::make_shared<RuleStyle>(RuleStyle{.socket = cmd::kControlSocket});
  auto& choice = style->choice;
  add_socket(command, style->socket);
  command.add_option("chain", choice.chain, "This chain alone, and whole")->type_name("CHAIN");
  command
      .add_option_function<std::string>(
          "--table", [&choice](const std::string& name) { choice.table = kTableNames.at(name); },
          "This table alone: nat, filter, mangle, or kube-ipvs of nf_tables")
      ->check(CLI::IsMember(kTableNames))
      ->type_name("TABLE");
  add_family(command, choice.family);
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&form = style->form](const std::string& name) { form = kRuleForms.at(name); },
          "Form: json, yaml, or save: as iptables-save prints it")
      ->check(CLI::IsMember(kRuleForms))
      ->type_name("FORM");
  command.add_flag("--counters", style->counters, "With -o save: packets and bytes of each rule");
  return [style] {
    const bool save = style->form == RuleForm::save;
    if (save && !style->choice.family)
      throw CLI::ValidationError("-o save: one family has to be chosen, by -4 or -6");
    if (style->counters && !save) throw CLI::ValidationError("--counters goes with -o save");
    return *style;
  };
}

Make add_explain(CLI::App& command) {
  const auto words = std::make_shared<ExplainWords>();
  add_explain_flags(command, *words);
  add_socket(command, words->socket);
  return [words] { return explain_options(*words); };
}

Make add_service(CLI::App& command) {
  const auto options =
      std::make_shared<ServiceOptions>(ServiceOptions{.socket = cmd::kControlSocket});
  const auto subject = std::make_shared<std::string>();
  command
      .add_option("service", *subject,
                  "A Service, or a pod of one: NAMESPACE/NAME; or an address, or address:port")
      ->required()
      ->type_name("SERVICE");
  add_form(command, options->format);
  add_socket(command, options->socket);
  return [options, subject] {
    if (subject->find('/') != std::string::npos)
      options->name = inspect::parse_service_name(*subject);
    else
      options->address = Backend::parse(*subject);
    if (!options->name && !options->address)
      throw CLI::ValidationError("\"" + *subject + "\" is no namespace/name and no address");
    return *options;
  };
}

Make add_top(CLI::App& command) {
  const auto words = std::make_shared<TopWords>(TopWords{.socket = cmd::kControlSocket});
  add_socket(command, words->socket);
  add_top_flags(command, *words);
  return [words] { return top_options(*words); };
}

Make add_addresses(CLI::App& command) {
  const auto options = std::make_shared<AddressesOptions>();
  add_form(command, options->format);
  add_names(command, options->names, options->socket);
  return [options] { return *options; };
}

const std::map<std::string, ConnectionSort> kConnectionSorts = {
    {"expires", ConnectionSort::expires},
    {"state", ConnectionSort::state},
    {"client", ConnectionSort::client},
    {"service", ConnectionSort::service},
    {"backend", ConnectionSort::backend}};

Make add_connections(CLI::App& command) {
  const auto options = std::make_shared<ConnectionsOptions>();
  auto& style = options->style;
  add_ends_filter(command, style.filter);
  add_services(command, options->services);
  command
      .add_option_function<std::string>(
          "--sort-by",
          [&style](const std::string& column) { style.sort = kConnectionSorts.at(column); },
          "Column: expires, state, client, service, backend; without it the kernel's order")
      ->check(CLI::IsMember(kConnectionSorts))
      ->type_name("COLUMN");
  add_form(command, style.format);
  add_names(command, options->names, options->socket);
  return [options] { return *options; };
}

Make add_completion(CLI::App& command, std::ostream& out) {
  const auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  return [shell, &out] {
    out << completion_script(*shell);
    return 0;
  };
}

// Run by shells with the words so far after "--"; not for typing.
Make add_complete(CLI::App& command, const CLI::App& app, std::ostream& out) {
  const auto words = std::make_shared<std::vector<std::string>>();
  command.group("")->add_option("words", *words)->required();
  return [words, &app, &out] {
    CLI::App daemon;
    cmd::add_daemon_flags(daemon);
    out << complete(app, daemon, *words);
    return 0;
  };
}

}  // namespace

CtlCommand parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                             std::ostream& err) {
  CLI::App app(
      "Shows what the kernel holds for proxying, and whether it is what the cluster wants.",
      "ipvsctl");
  app.set_version_flag("--version", "ipvsctl " IPVS_PROXIER_VERSION);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Make>> commands;
  const auto add = [&](const char* name, const char* about, const auto& add_flags) {
    auto* command = app.add_subcommand(name, about);
    commands.emplace_back(command, add_flags(*command));
  };
  add("list", "List virtual services and their real servers", add_list_flags);
  add("service", "Everything about one Service", add_service);
  add("explain", "The way of a packet, and what comes of it", add_explain);
  add("top", "What goes through Services and backends now", add_top);
  add("connections", "Connections through Services", add_connections);
  add("sets", "List IP sets that the rules consult, or one's elements", add_sets);
  add("rules", "Our chains of the packet filter, and what in them is not ours", add_rules);
  add("addresses", "Where the addresses of Services are bound", add_addresses);
  add("status", "Say how the daemon is", add_status);
  add("diff", "Compare the kernel with what the daemon wants", add_diff);
  add("plan", "Say what a daemon with these flags would change here", add_plan);
  add("check", "Say whether ipvs-proxier can work on this node", add_check);
  add("completion", "Print a script that completes ipvsctl's command lines",
      [&](CLI::App& command) { return add_completion(command, out); });
  add("complete", "", [&](CLI::App& command) { return add_complete(command, app, out); });
  try {
    app.parse(argc, argv);
    for (const auto& [command, make] : commands)
      if (command->parsed()) return make();
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : 2;
  }
  return 2;  // after require_subcommand()
}

}  // namespace ipvsproxier::ctl

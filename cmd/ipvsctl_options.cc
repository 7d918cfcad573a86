#include "cmd/ipvsctl_options.h"

#include <charconv>
#include <map>
#include <ostream>
#include <string>

#include <CLI/CLI.hpp>

#include "cmd/command_line.h"
#include "cmd/completion.h"
#include "cmd/known_values.h"
#include "cmd/text.h"
#include "cmd/top_options.h"

namespace ipvsproxier::cmd {

namespace {

const std::map<std::string, ListFormat> kFormats = {{"wide", ListFormat::wide},
                                                    {"json", ListFormat::json},
                                                    {"yaml", ListFormat::yaml},
                                                    {"save", ListFormat::save}};

const std::map<std::string, inspect::SetFormat> kSetFormats = {{"json", inspect::SetFormat::json},
                                                               {"yaml", inspect::SetFormat::yaml}};

const std::map<std::string, netlink::Protocol> kProtocols = {{"tcp", netlink::Protocol::tcp},
                                                             {"udp", netlink::Protocol::udp},
                                                             {"sctp", netlink::Protocol::sctp}};

// What CLI11 calls with each value of an option, for values that it does not know.
template <typename T, typename Parse>
CLI::callback_t reads(std::optional<T>& target, Parse parse, std::string expected) {
  return [&target, parse, expected = std::move(expected)](const CLI::results_t& values) {
    target = parse(values.front());
    if (!target) throw CLI::ValidationError("\"" + values.front() + "\" is no " + expected);
    return true;
  };
}

// An address is the prefix of all its bits.
std::optional<netlink::IpPrefix> parse_vip(const std::string& text) {
  if (const auto address = netlink::IpAddress::parse(text))
    return netlink::IpPrefix::of(*address, address_bits(address->family()));
  return netlink::IpPrefix::parse(text);
}

std::optional<std::uint16_t> parse_port_number(const std::string& text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<netlink::Protocol> parse_protocol_name(const std::string& text) {
  const auto found = kProtocols.find(to_lower(text));
  if (found == kProtocols.end()) return std::nullopt;
  return found->second;
}

// The flags of `list` as they are on the command line.
struct ListFlags {
  bool connections = false;
  bool timeout = false;
  bool daemon = false;
  bool stats = false;
  bool rate = false;
  bool thresholds = false;
  bool persistent_conn = false;
  bool tun_info = false;
  bool exact = false;
  bool numeric = false;
  bool sort = false;
  bool nosort = false;
  bool ipvsadm = false;
  std::string output;
  inspect::ListFilter filter;
};

void add_flags(CLI::App& list, ListFlags& flags) {
  list.add_flag("-c,--connections", flags.connections, "Connections instead of the table");
  list.add_flag("--timeout", flags.timeout, "Timeouts of connections, in seconds, instead");
  list.add_flag("--daemon", flags.daemon, "The kernel's connection sync daemons instead");
  list.add_flag("--stats", flags.stats, "Connections, packets and bytes so far");
  list.add_flag("--rate", flags.rate, "Connections, packets and bytes per second");
  list.add_flag("--thresholds", flags.thresholds, "Connection thresholds of real servers");
  list.add_flag("--persistent-conn", flags.persistent_conn,
                "Persistent connections; with -c what the engine found");
  list.add_flag("--tun-info", flags.tun_info, "Tunnels of real servers");
  list.add_flag("--exact", flags.exact, "Large numbers whole, not as thousands (K) or more");
  list.add_flag("-n,--numeric", flags.numeric, "Addresses and ports as numbers, not names");
  list.add_flag("--sort", flags.sort, "Sort as ipvsadm does (the default)");
  list.add_flag("--nosort", flags.nosort, "In the kernel's order, as it is read");
  list.add_flag("--ipvsadm", flags.ipvsadm,
                "Print what ipvsadm -Ln prints, byte for byte; implies -n");
  list.add_option("-o,--output", flags.output,
                  "Form: wide, json, yaml, or save as ipvsadm-save -n prints")
      ->check(CLI::IsMember(kFormats))
      ->type_name("FORM");
}

// Those that connections have, too.
void add_ends_filter(CLI::App& list, inspect::ListFilter& filter) {
  list.add_option("--vip", reads(filter.vip, parse_vip, "address or prefix"),
                  "Virtual services of this address, or in this prefix")
      ->type_name("ADDRESS");
  list.add_option("--port", reads(filter.port, parse_port_number, "port"),
                  "Virtual services of this port")
      ->type_name("PORT");
  list.add_option("--protocol",
                  reads(filter.protocol, parse_protocol_name, "protocol: tcp, udp, sctp"),
                  "Virtual services of this protocol: tcp, udp or sctp")
      ->type_name("NAME");
  list.add_option("--backend",
                  reads(filter.backend, inspect::Backend::parse, "address or address:port"),
                  "Real servers of this address, or address:port, and their services")
      ->type_name("ADDRESS");
}

void add_filter(CLI::App& list, inspect::ListFilter& filter) {
  add_ends_filter(list, filter);
  list.add_flag("--draining", filter.draining, "Real servers of weight 0, and their services");
  list.add_flag("--empty", filter.empty, "Virtual services without a real server");
}

// Options of one row's first group do not go together with those of its second. (CLI11 can do that
// too, but then says so in --help at such length that nothing else is found there.)
void check_conflicts(const CLI::App& list) {
  using Names = std::vector<std::string>;
  const Names others = {"--connections", "--timeout", "--daemon"};
  const Names columns = {"--stats", "--rate", "--thresholds", "--tun-info", "--exact"};
  const std::vector<std::pair<Names, Names>> conflicts = {
      {others, others},
      {others, columns},
      {others, {"--output", "--nosort", "--draining", "--empty"}},
      {{"--timeout", "--daemon"},
       {"--persistent-conn", "--vip", "--port", "--protocol", "--backend"}},
      {{"--output"}, columns},
      {{"--output"}, {"--persistent-conn", "--ipvsadm"}},
      {{"--empty"}, {"--draining", "--backend"}},
  };
  for (const auto& [left, right] : conflicts)
    for (const auto& one : left)
      for (const auto& other : right)
        if (one != other && list.count(one) > 0 && list.count(other) > 0)
          throw CLI::ExcludesError(one, other);
}

// Of several kinds of columns the first counts, as in ipvsadm.
inspect::Columns columns_of(const ListFlags& flags) {
  if (flags.stats) return inspect::Columns::stats;
  if (flags.rate) return inspect::Columns::rate;
  if (flags.thresholds) return inspect::Columns::thresholds;
  if (flags.persistent_conn) return inspect::Columns::persistent;
  if (flags.tun_info) return inspect::Columns::tunnels;
  return inspect::Columns::plain;
}

ListOptions list_options(const ListFlags& flags) {
  return {.subject = flags.connections ? ListSubject::connections
                     : flags.timeout   ? ListSubject::timeouts
                     : flags.daemon    ? ListSubject::daemons
                                       : ListSubject::table,
          .format = flags.output.empty() ? ListFormat::text : kFormats.at(flags.output),
          .columns = columns_of(flags),
          .persistence = flags.persistent_conn,
          .exact = flags.exact,
          .numeric = flags.numeric || flags.ipvsadm,
          .sorted = !flags.nosort,
          .filter = flags.filter};
}

void add_socket(CLI::App& command, std::string& socket) {
  command.add_option("--control-socket", socket, "Where the daemon answers")
      ->type_name("PATH")
      ->capture_default_str();
}

void add_json(CLI::App& command, bool& json) {
  command
      .add_option_function<std::string>(
          "-o,--output", [&json](const std::string&) { json = true; }, "Form: json")
      ->check(CLI::IsMember({"json"}))
      ->type_name("FORM");
}

const std::map<std::string, inspect::ConnectionSort> kConnectionSorts = {
    {"expires", inspect::ConnectionSort::expires},
    {"state", inspect::ConnectionSort::state},
    {"client", inspect::ConnectionSort::client},
    {"service", inspect::ConnectionSort::service},
    {"backend", inspect::ConnectionSort::backend}};

// What `addresses` and `connections` have in common.
struct ViewWords {
  std::string form;
  std::string sort_by;
  std::string socket = kControlSocket;
  bool numeric = false;

  inspect::SetFormat format() const {
    return form.empty() ? inspect::SetFormat::text : kSetFormats.at(form);
  }
  std::string names_from() const { return numeric ? "" : socket; }
};

void add_view(CLI::App& view, ViewWords& words) {
  view.add_flag("-n,--numeric", words.numeric, "Numbers alone: no names of the cluster");
  view.add_option("-o,--output", words.form, "Form: json or yaml")
      ->check(CLI::IsMember(kSetFormats))
      ->type_name("FORM");
  add_socket(view, words.socket);
}

void add_connections(CLI::App& connections, ViewWords& words, inspect::ListFilter& filter) {
  add_ends_filter(connections, filter);
  connections
      .add_option("--sort-by", words.sort_by,
                  "Column: expires, state, client, service, backend; without it the kernel's order")
      ->check(CLI::IsMember(kConnectionSorts))
      ->type_name("COLUMN");
  add_view(connections, words);
}

ConnectionsOptions connections_options(const ViewWords& words, const inspect::ListFilter& filter) {
  ConnectionsOptions options{.style = {.filter = filter, .format = words.format()},
                             .socket = words.names_from()};
  if (!words.sort_by.empty()) options.style.sort = kConnectionSorts.at(words.sort_by);
  return options;
}

// Flags that are not its own are the daemon's.
void add_plan(CLI::App& plan, PlanOptions& options) {
  plan.add_option("--kubeconfig", options.kubeconfig,
                  "Ask this API server, instead of the configuration's")
      ->type_name("FILE");
  add_json(plan, options.json);
  plan.allow_extras();
  plan.footer("All other flags are those of ipvs-proxier: --config, --manifests, ...");
}

// What shells run, behind "--", for the words so far; nobody types it.
void add_complete(CLI::App& app, std::vector<std::string>& words) {
  app.add_subcommand("complete", "")->group("")->add_option("words", words);
}

int answer_shell(const CLI::App& app, const std::vector<std::string>& words, std::ostream& out) {
  CLI::App daemon;
  add_daemon_flags(daemon);
  out << candidates_text(complete(app, daemon, words, known_values));
  return 0;
}

void add_completion(CLI::App& app, std::string& shell) {
  app.add_subcommand("completion", "Print a script that completes ipvsctl's command lines")
      ->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
}

}  // namespace

CtlCommand parse_ctl_options(int argc, const char* const* argv, std::ostream& out,
                             std::ostream& err) {
  CLI::App app(
      "Shows what the kernel holds for proxying, and whether it is what the cluster wants.",
      "ipvsctl");
  app.set_version_flag("--version", "ipvsctl " IPVS_PROXIER_VERSION);
  app.require_subcommand(1);
  ListFlags flags;
  auto* list = app.add_subcommand("list", "List virtual services and their real servers");
  add_flags(*list, flags);
  add_filter(*list, flags.filter);
  DiffOptions diff_options{.socket = kControlSocket};
  auto* diff = app.add_subcommand("diff", "Compare the kernel with what the daemon wants");
  add_socket(*diff, diff_options.socket);
  add_json(*diff, diff_options.json);
  PlanOptions plan_options;
  auto* plan = app.add_subcommand("plan", "Say what a daemon with these flags would change here");
  add_plan(*plan, plan_options);
  StatusOptions status_options{.socket = kControlSocket};
  auto* status = app.add_subcommand("status", "Say how the daemon is");
  add_socket(*status, status_options.socket);
  add_json(*status, status_options.json);
  auto* sets = app.add_subcommand("sets", "List IP sets that the rules consult, or one's elements");
  SetsOptions sets_options;
  std::string sets_form;
  sets->add_option("name", sets_options.name, "The set whose elements are listed")
      ->type_name("SET");
  sets->add_option("-o,--output", sets_form, "Form: json or yaml")
      ->check(CLI::IsMember(kSetFormats))
      ->type_name("FORM");
  auto* explain = app.add_subcommand("explain", "The way of a packet, and what comes of it");
  ExplainWords words;
  add_explain_flags(*explain, words);
  auto* top = app.add_subcommand("top", "What goes through Services and backends now");
  auto* addresses = app.add_subcommand("addresses", "Where the addresses of Services are bound");
  auto* connections = app.add_subcommand("connections", "Connections through Services");
  ViewWords view;
  inspect::ListFilter connection_filter;
  add_view(*addresses, view);
  add_connections(*connections, view, connection_filter);
  TopWords top_words{.socket = kControlSocket};
  add_socket(*top, top_words.socket);
  add_top_flags(*top, top_words);
  std::string shell;
  add_completion(app, shell);
  std::vector<std::string> begun;
  add_complete(app, begun);
  try {
    app.parse(argc, argv);
    check_conflicts(*list);
    if (explain->parsed()) return explain_options(words);
    if (top->parsed()) return top_options(top_words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, out, err) == 0 ? 0 : 2;
  }
  if (app.got_subcommand("complete")) return answer_shell(app, begun, out);
  if (!shell.empty()) {
    out << completion_script(shell);
    return 0;
  }
  if (diff->parsed()) return diff_options;
  if (status->parsed()) return status_options;
  if (plan->parsed()) {
    plan_options.arguments = plan->remaining();
    return plan_options;
  }
  if (list->parsed()) return list_options(flags);
  if (connections->parsed()) return connections_options(view, connection_filter);
  if (addresses->parsed()) return AddressesOptions{view.format(), view.names_from()};
  if (!sets_form.empty()) sets_options.format = kSetFormats.at(sets_form);
  return sets_options;
}

}  // namespace ipvsproxier::cmd

#include "cmd/ipvsctl/listing/list_options.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "netlink/text.h"
#include "proxier/config/text.h"

namespace ipvsproxier::ctl {

namespace {

const std::map<std::string, ListFormat> kFormats = {{"wide", ListFormat::wide},
                                                    {"json", ListFormat::json},
                                                    {"yaml", ListFormat::yaml},
                                                    {"save", ListFormat::save}};

// A CLI11 callback that parses each value of an option.
template <typename T, typename Parse>
CLI::callback_t reads(std::optional<T>& target, Parse parse, std::string expected) {
  return [&target, parse, expected = std::move(expected)](const CLI::results_t& values) {
    target = parse(values.front());
    if (!target) throw CLI::ValidationError("\"" + values.front() + "\" is no " + expected);
    return true;
  };
}

// An address counts as the prefix with all its bits.
std::optional<netlink::IpPrefix> parse_vip(const std::string& text) {
  if (const auto address = netlink::IpAddress::parse(text))
    return netlink::IpPrefix::of(*address, address_bits(address->family()));
  return netlink::IpPrefix::parse(text);
}

std::optional<std::uint16_t> parse_port_number(const std::string& text) {
  return netlink::parse_number<std::uint16_t>(text);
}

// The flags of `list` as texts and switches.
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
  bool resolve = false;
  std::string output;
  ListFilter filter;
  inspect::ServiceQuery services;
  std::string socket = cmd::kControlSocket;
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
  list.add_flag("-n,--numeric", flags.numeric, "Numbers alone: no names of the cluster");
  list.add_flag("--resolve", flags.resolve,
                "Addresses and ports by the names that this host knows, as ipvsadm -L");
  list.add_flag("--sort", flags.sort, "Sort as ipvsadm does (the default)");
  list.add_flag("--nosort", flags.nosort, "In the kernel's order, as it is read");
  list.add_flag("--ipvsadm", flags.ipvsadm,
                "Print what ipvsadm -Ln prints, byte for byte; with --resolve ipvsadm -L");
  list.add_option("-o,--output", flags.output,
                  "Form: wide, json, yaml, or save as ipvsadm-save -n prints")
      ->check(CLI::IsMember(kFormats))
      ->type_name("FORM");
}

void add_filter(CLI::App& list, ListFilter& filter) {
  add_ends_filter(list, filter);
  list.add_flag("--draining", filter.draining, "Real servers of weight 0, and their services");
  list.add_flag("--empty", filter.empty, "Virtual services without a real server");
}

// Options in a row's first group exclude those in its second. (CLI11 could check this, but would
// describe it at length in --help.)
void check_conflicts(const CLI::App& list) {
  using Names = std::vector<std::string>;
  const Names others = {"--connections", "--timeout", "--daemon"};
  const Names columns = {"--stats", "--rate", "--thresholds", "--tun-info", "--exact"};
  const std::vector<std::pair<Names, Names>> conflicts = {
      {others, others},
      {others, columns},
      {others, {"--output", "--nosort", "--draining", "--empty", "--namespace", "--service"}},
      {{"--numeric"}, {"--resolve"}},
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

// If several kinds of columns are requested, the first counts, as in ipvsadm.
Columns columns_of(const ListFlags& flags) {
  if (flags.stats) return Columns::stats;
  if (flags.rate) return Columns::rate;
  if (flags.thresholds) return Columns::thresholds;
  if (flags.persistent_conn) return Columns::persistent;
  if (flags.tun_info) return Columns::tunnels;
  return Columns::plain;
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
          .resolve = flags.resolve,
          .names = !flags.numeric && !flags.ipvsadm && flags.output != "save",
          .socket = flags.socket,
          .services = flags.services,
          .sorted = !flags.nosort,
          .filter = flags.filter};
}

}  // namespace

std::optional<netlink::Protocol> parse_protocol_word(std::string_view text) {
  using netlink::Protocol;
  for (const auto protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp})
    if (config::to_lower(text) == netlink::to_lower_string(protocol)) return protocol;
  return std::nullopt;
}

void add_ends_filter(CLI::App& list, ListFilter& filter) {
  list.add_option("--vip", reads(filter.vip, parse_vip, "address or prefix"),
                  "Virtual services of this address, or in this prefix")
      ->type_name("ADDRESS");
  list.add_option("--port", reads(filter.port, parse_port_number, "port"),
                  "Virtual services of this port")
      ->type_name("PORT");
  list.add_option("--protocol",
                  reads(filter.protocol, parse_protocol_word, "protocol: tcp, udp, sctp"),
                  "Virtual services of this protocol: tcp, udp or sctp")
      ->type_name("NAME");
  list.add_option("--backend", reads(filter.backend, Backend::parse, "address or address:port"),
                  "Real servers of this address, or address:port, and their services")
      ->type_name("ADDRESS");
}

void add_services(CLI::App& command, inspect::ServiceQuery& services) {
  command
      .add_option("-N,--namespace", services.ns, "Virtual services of this namespace's Services")
      ->type_name("NAMESPACE");
  const auto read =
      reads(services.service, inspect::parse_service_name, "namespace/name of a Service");
  const auto alone = [&services, read](const CLI::results_t& values) {
    if (services.ns) throw CLI::ExcludesError("--namespace", "--service");
    return read(values);
  };
  command.add_option("--service", alone, "Virtual services of this Service")->type_name("SERVICE");
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

std::function<ListOptions()> add_list_flags(CLI::App& command) {
  const auto flags = std::make_shared<ListFlags>();
  add_flags(command, *flags);
  add_filter(command, flags->filter);
  add_services(command, flags->services);
  add_socket(command, flags->socket);
  return [flags, &command] {
    check_conflicts(command);
    return list_options(*flags);
  };
}

}  // namespace ipvsproxier::ctl

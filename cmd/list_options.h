#pragma once

// The command line of `ipvsctl list`, and filters that other commands have, too.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cmd/command_line.h"
#include "proxier/inspect/list_filter.h"
#include "proxier/inspect/service_query.h"
#include "proxier/inspect/table_form.h"

namespace ipvsproxier::cmd {

enum class ListSubject : std::uint8_t { table, connections, timeouts, daemons };
enum class ListFormat : std::uint8_t { text, wide, json, yaml, save };

struct ListOptions {
  ListSubject subject = ListSubject::table;
  ListFormat format = ListFormat::text;
  inspect::Columns columns = inspect::Columns::plain;
  bool persistence = false;  // of connections: what their engine found
  bool exact = false;
  bool resolve = false;  // addresses and ports by the names that this host knows
  // What the cluster calls things is shown; the daemon is asked on `socket`.
  bool names = true;
  std::string socket;
  // Only these Services' virtual services. The daemon alone knows which these are.
  inspect::ServiceQuery services;
  bool sorted = true;
  inspect::ListFilter filter;
};

// Makes the command's flags write into what the result reads: call it when the line is parsed. It
// throws a CLI::ParseError for flags that do not go together.
std::function<ListOptions()> add_list_flags(CLI::App& command);

// --vip, --port, --protocol, --backend
void add_ends_filter(CLI::App& command, inspect::ListFilter& filter);

// --namespace, --service, of which one may be given
void add_services(CLI::App& command, inspect::ServiceQuery& services);

// "tcp", "UDP"; nullopt: none of the three.
std::optional<netlink::Protocol> parse_protocol_word(std::string_view text);

// --control-socket
void add_socket(CLI::App& command, std::string& socket);

// --output, where JSON is the one other form.
void add_json(CLI::App& command, bool& json);

}  // namespace ipvsproxier::cmd

#pragma once

// The command line of `ipvsctl list`, and filters that other commands share.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/listing/list_filter.h"
#include "proxier/inspect/service_query.h"

namespace ipvsproxier::ctl {

// Adds the command's flags. Call the result after the line is parsed: it returns the options, or
// throws a CLI::ParseError for contradicting flags.
std::function<ListOptions()> add_list_flags(CLI::App& command);

// --vip, --port, --protocol, --backend
void add_ends_filter(CLI::App& command, ListFilter& filter);

// --namespace and --service, of which at most one may be given
void add_services(CLI::App& command, inspect::ServiceQuery& services);

// "tcp", "UDP"; nullopt: not a known protocol.
std::optional<netlink::Protocol> parse_protocol_word(std::string_view text);

// --control-socket
void add_socket(CLI::App& command, std::string& socket);

// --output, for commands whose only other format is JSON.
void add_json(CLI::App& command, bool& json);

}  // namespace ipvsproxier::ctl

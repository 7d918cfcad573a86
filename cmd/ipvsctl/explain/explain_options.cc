#include "cmd/ipvsctl/explain/explain_options.h"

#include <CLI/CLI.hpp>

#include "cmd/ipvsctl/listing/list_filter.h"
#include "cmd/ipvsctl/listing/list_options.h"

namespace ipvsproxier::ctl {

void add_explain_flags(CLI::App& command, ExplainWords& words) {
  command
      .add_option("source", words.source,
                  "Who sends: ADDRESS or ADDRESS:PORT; \"node\" for this node, with the address "
                  "that it chooses")
      ->required()
      ->type_name("SOURCE");
  command
      .add_option("destination", words.destination,
                  "To whom: ADDRESS:PORT, with /udp or /sctp behind it where it is not TCP")
      ->required()
      ->type_name("DESTINATION");
  command
      .add_option("--in", words.in_link,
                  "The link by which it comes in, if not by that on which answers would leave")
      ->type_name("LINK");
  command.add_flag("--live", words.live, "Also the connections that there are of it now");
  add_json(command, words.json);
}

ExplainOptions explain_options(const ExplainWords& words) {
  ExplainOptions options{.live = words.live, .json = words.json, .socket = words.socket};
  auto& flow = options.flow;
  if (words.source != "node") {
    const auto source = Backend::parse(words.source);
    if (!source)
      throw CLI::ValidationError("\"" + words.source + "\" is no address or address:port");
    flow.source = source->address;
    flow.source_port = source->port.value_or(0);
  }
  const auto slash = words.destination.find('/');
  if (slash != std::string::npos) {
    const auto suffix = words.destination.substr(slash + 1);
    const auto protocol = parse_protocol_word(suffix);
    if (!protocol) throw CLI::ValidationError("\"" + suffix + "\" is no protocol: tcp, udp, sctp");
    flow.protocol = *protocol;
  }
  const auto destination = Backend::parse(words.destination.substr(0, slash));
  if (!destination || destination->port.value_or(0) == 0)
    throw CLI::ValidationError("\"" + words.destination + "\" is no address:port");
  flow.destination = destination->address;
  flow.port = *destination->port;
  flow.in_link = words.in_link;
  return options;
}

}  // namespace ipvsproxier::ctl

#pragma once

// The commands that test_api_server reads, a line each.

#include <string>

#include "netlink/result.h"
#include "test/support/api_server/api_server.h"

namespace ipvsproxier::test {

inline constexpr const char* kCommandHelp =
    R"(  put FILE                 adds or replaces the objects of a file, YAML or JSON, also Lists
  delete KIND [NS/]NAME    Service, EndpointSlice or Node
  fault KIND|all FAULT...  tear=BYTES trickle=BYTES_PER_SECOND silent silent-answer cut=BYTES
                           malformed duplicate reorder bookmarks-only
                           answer=CODE[,RETRY_AFTER_SECONDS[,TIMES]]; without any: none
  end|expire|bookmark KIND ends watches; as if their version were too old; sends a bookmark
  compact                  forgets the past: versions that were seen before are expired
  reset | vanish | reappear | stop | resume    of connections; of the whole server
  token TOKEN              asks for another bearer token from now on
  requests                 prints what was asked for, oldest first
  events                   prints the Events that were accepted, as one JSON list
  state                    prints version, objects and watches
  quit                     as the end of input does
)";

// Does what a line says; answers what to print, without a newline. "quit" is not one of these.
netlink::Result<std::string> run_command(ApiServer& server, const std::string& line);

}  // namespace ipvsproxier::test

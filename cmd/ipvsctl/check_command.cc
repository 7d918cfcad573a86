#include "cmd/ipvsctl/commands.h"

#include <utility>

#include "cmd/check_node.h"
#include "cmd/ipvsctl/control_client.h"
#include "cmd/ipvsctl/diff/plan_input.h"
#include "cmd/log.h"

namespace ipvsproxier::ctl {

namespace {

constexpr int kCannotTell = 2;

// A daemon that does not run has no flags to ask for: then the default ones count.
netlink::Result<cmd::Options> options_to_check(const CheckOptions& options) {
  if (options.arguments.empty()) {
    ControlClient daemon(options.socket);
    auto running = options_of_daemon(daemon);
    if (running || running.error().kind != netlink::ErrorKind::missing) return running;
  }
  auto given = options_of_flags(options.arguments);
  if (given) given->control_socket = options.socket;
  return given;
}

}  // namespace

int run_check(const CheckOptions& options, Output& output) {
  auto logger = cmd::make_tool_logger(spdlog::level::warn);
  const auto checked = options_to_check(options);
  if (!checked) {
    complain(to_string(checked.error()));
    return kCannotTell;
  }
  const auto report = cmd::check_node(*checked, options.json, logger);
  return output.write(report.text) ? report.status : kCannotTell;
}

}  // namespace ipvsproxier::ctl

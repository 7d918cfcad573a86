// Composition root of ipvsctl, the inspection tool, which only reads.

#include <unistd.h>

#include <iostream>

#include "cmd/daemon_names.h"
#include "cmd/ipvsctl_diff.h"
#include "cmd/ipvsctl_explain.h"
#include "cmd/ipvsctl_list.h"
#include "cmd/ipvsctl_options.h"
#include "cmd/ipvsctl_rules.h"
#include "cmd/ipvsctl_sets.h"
#include "cmd/ipvsctl_status.h"
#include "cmd/ipvsctl_top.h"
#include "cmd/ipvsctl_views.h"
#include "cmd/output.h"

namespace ipvsproxier::cmd {
namespace {

constexpr int kFailed = 1;
constexpr int kReaderGone = 141;  // as shells report an end by SIGPIPE

struct Run {
  Output& output;

  int operator()(int status) const { return status; }
  int operator()(const ListOptions& options) const { return told(run_list(options, sink())); }
  int operator()(const SetsOptions& options) const { return told(run_sets(options, sink())); }
  int operator()(const inspect::RuleStyle& style) const { return told(run_rules(style, sink())); }
  // Exit status 0: the packet arrives; 1: it does not; 2: unknown.
  int operator()(const ExplainOptions& options) const {
    const auto names = names_if_known(options.socket);
    const auto gets_there =
        run_explain(options, names ? inspect::walk_names(*names) : inspect::WalkNames{}, sink());
    if (gets_there) return *gets_there ? 0 : 1;
    complain(gets_there.error());
    return 2;
  }
  int operator()(const DiffOptions& options) const { return run_diff(options, output); }
  int operator()(const PlanOptions& options) const { return run_plan(options, output); }
  int operator()(const StatusOptions& options) const { return run_status(options, output); }
  int operator()(const AddressesOptions& options) const {
    return told(run_addresses(options, sink()));
  }
  int operator()(const ConnectionsOptions& options) const {
    return told(run_connections(options, sink()));
  }
  int operator()(const TopOptions& options) const { return told(run_top(options, sink())); }

  int operator()(const ServiceOptions& options) const { return run_service(options, output); }

  inspect::TextSink sink() const {
    return [this](std::string_view text) { return output.write(text); };
  }
  int told(const netlink::Status& status) const {
    if (status) return 0;
    complain(status.error());
    return kFailed;
  }
  void complain(const netlink::Error& error) const {
    if (!output.reader_gone()) cmd::complain(to_string(error));
  }
};

int run(int argc, char** argv) {
  Output output(STDOUT_FILENO);
  const int status = std::visit(Run{output}, parse_ctl_options(argc, argv, std::cout, std::cerr));
  return output.reader_gone() ? kReaderGone : status;
}

}  // namespace
}  // namespace ipvsproxier::cmd

int main(int argc, char** argv) {
  return ipvsproxier::cmd::run(argc, argv);
}

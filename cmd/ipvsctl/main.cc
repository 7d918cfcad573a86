// Composition root of ipvsctl, the inspection tool, which only reads.

#include <unistd.h>

#include <iostream>

#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/ipvsctl_options.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/output.h"

namespace ipvsproxier::ctl {
namespace {

constexpr int kFailed = 1;
constexpr int kReaderGone = 141;  // as shells report an end by SIGPIPE

struct Run {
  Output& output;

  int operator()(int status) const { return status; }
  int operator()(const ListOptions& options) const { return told(run_list(options, sink())); }
  int operator()(const SetsOptions& options) const { return told(run_sets(options, sink())); }
  int operator()(const RuleStyle& style) const { return told(run_rules(style, sink())); }
  // Exit status 0: the packet arrives; 1: it does not; 2: unknown.
  int operator()(const ExplainOptions& options) const {
    const auto names = names_if_known(options.socket);
    const auto gets_there = run_explain(options, names ? walk_names(*names) : WalkNames{}, sink());
    if (gets_there) return *gets_there ? 0 : 1;
    tell(gets_there.error());
    return 2;
  }
  int operator()(const DiffOptions& options) const { return run_diff(options, output); }
  int operator()(const PlanOptions& options) const { return run_plan(options, output); }
  int operator()(const CheckOptions& options) const { return run_check(options, output); }
  int operator()(const StatusOptions& options) const { return run_status(options, output); }
  int operator()(const AddressesOptions& options) const {
    return told(run_addresses(options, sink()));
  }
  int operator()(const ConnectionsOptions& options) const {
    return told(run_connections(options, sink()));
  }
  int operator()(const TopOptions& options) const { return told(run_top(options, sink())); }

  int operator()(const ServiceOptions& options) const { return run_service(options, output); }

  TextSink sink() const {
    return [this](std::string_view text) { return output.write(text); };
  }
  int told(const netlink::Status& status) const {
    if (status) return 0;
    tell(status.error());
    return kFailed;
  }
  void tell(const netlink::Error& error) const {
    if (!output.reader_gone()) complain(to_string(error));
  }
};

int run(int argc, char** argv) {
  Output output(STDOUT_FILENO);
  const int status = std::visit(Run{output}, parse_ctl_options(argc, argv, std::cout, std::cerr));
  return output.reader_gone() ? kReaderGone : status;
}

}  // namespace
}  // namespace ipvsproxier::ctl

int main(int argc, char** argv) {
  return ipvsproxier::ctl::run(argc, argv);
}

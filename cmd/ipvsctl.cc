// Composition root of ipvsctl, the inspection tool. It only reads.

#include <unistd.h>

#include <iostream>

#include "cmd/ipvsctl_diff.h"
#include "cmd/ipvsctl_list.h"
#include "cmd/ipvsctl_options.h"
#include "cmd/output.h"

namespace ipvsproxier::cmd {
namespace {

constexpr int kFailed = 1;
constexpr int kReaderGone = 141;  // as a shell reports an end by SIGPIPE

struct Run {
  Output& output;

  int operator()(int status) const { return status; }
  int operator()(const ListOptions& options) const {
    const auto status =
        run_list(options, [&](std::string_view text) { return output.write(text); });
    if (status) return 0;
    if (!output.reader_gone()) std::cerr << "ipvsctl: " << to_string(status.error()) << '\n';
    return kFailed;
  }
  int operator()(const DiffOptions& options) const { return run_diff(options, output); }
  int operator()(const PlanOptions& options) const { return run_plan(options, output); }
  int operator()(const StatusOptions& options) const { return run_status(options, output); }
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

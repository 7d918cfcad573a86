// Composition root of ipvsctl, the inspection tool. It only reads.

#include <unistd.h>

#include <iostream>

#include "cmd/ipvsctl_explain.h"
#include "cmd/ipvsctl_list.h"
#include "cmd/ipvsctl_options.h"
#include "cmd/ipvsctl_sets.h"
#include "cmd/output.h"

namespace ipvsproxier::cmd {
namespace {

constexpr int kFailed = 1;
constexpr int kReaderGone = 141;  // as a shell reports an end by SIGPIPE

int fail(const netlink::Error& error, const Output& output, int status) {
  if (output.reader_gone()) return kReaderGone;
  std::cerr << "ipvsctl: " << to_string(error) << '\n';
  return status;
}

// 0: it gets there, 1: it does not, 2: that could not be found out.
int explain(const ExplainOptions& options, const inspect::TextSink& sink, const Output& output) {
  const auto gets_there = run_explain(options, {}, sink);
  if (!gets_there) return fail(gets_there.error(), output, 2);
  return *gets_there ? 0 : 1;
}

int run(int argc, char** argv) {
  const auto command = parse_ctl_options(argc, argv, std::cout, std::cerr);
  if (!command.list && !command.sets && !command.explain) return command.status;
  Output output(STDOUT_FILENO);
  const auto sink = [&](std::string_view text) { return output.write(text); };
  if (command.explain) return explain(*command.explain, sink, output);
  const auto status = command.list ? run_list(*command.list, sink) : run_sets(*command.sets, sink);
  return status ? 0 : fail(status.error(), output, kFailed);
}

}  // namespace
}  // namespace ipvsproxier::cmd

int main(int argc, char** argv) {
  return ipvsproxier::cmd::run(argc, argv);
}

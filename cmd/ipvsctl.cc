// Composition root of ipvsctl, the inspection tool. It only reads.

#include <unistd.h>

#include <iostream>

#include "cmd/ipvsctl_list.h"
#include "cmd/ipvsctl_options.h"
#include "cmd/ipvsctl_sets.h"
#include "cmd/output.h"

namespace ipvsproxier::cmd {
namespace {

int run(int argc, char** argv) {
  constexpr int kFailed = 1;
  constexpr int kReaderGone = 141;  // as a shell reports an end by SIGPIPE
  const auto command = parse_ctl_options(argc, argv, std::cout, std::cerr);
  if (!command.list && !command.sets) return command.status;
  Output output(STDOUT_FILENO);
  const auto sink = [&](std::string_view text) { return output.write(text); };
  const auto status = command.list ? run_list(*command.list, sink) : run_sets(*command.sets, sink);
  if (status) return 0;
  if (output.reader_gone()) return kReaderGone;
  std::cerr << "ipvsctl: " << to_string(status.error()) << '\n';
  return kFailed;
}

}  // namespace
}  // namespace ipvsproxier::cmd

int main(int argc, char** argv) {
  return ipvsproxier::cmd::run(argc, argv);
}

#pragma once

// ipvsctl beside ipvsadm, on the network namespace of the calling thread.

#include <string>
#include <vector>

namespace ipvsproxier::test {

struct CtlAnswer {
  int status = 0;  // as the program's exit status
  std::string out;
  std::string err;
};

// What ipvsctl does with these words, without starting a process.
CtlAnswer ctl(const std::vector<std::string>& words);

// ipvsadm's words and ipvsctl's that must print the same: {"-Ln --stats", "list -n --stats"}.
struct SameOptions {
  std::string ipvsadm;
  std::string ipvsctl;
};

// Every form of the table that both programs have, in numbers.
const std::vector<SameOptions>& table_options();
// Connections.
const std::vector<SameOptions>& connection_options();

// CHECKs that both print the same bytes, and returns these. Counters, rates and expiries may change
// between two processes: a difference counts once it stayed for several attempts.
std::string check_same(const SameOptions& options);

}  // namespace ipvsproxier::test

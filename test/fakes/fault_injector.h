#pragma once

// FaultInjector: makes chosen operations of a fake fail, by what they say about themselves
// (to_string of the operation, or the name of the call: "list virtual services").

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/result.h"

namespace ipvsproxier::test {

class FaultInjector {
 public:
  // The next `times` operations whose text contains `part` fail with this error, which names the
  // operation as the kernel tables' errors do. A negative `times` means for ever.
  void fail(std::string part, netlink::Error error, int times = -1) {
    faults_.push_back({std::move(part), std::move(error), times});
  }

  void clear() { faults_.clear(); }

  std::optional<netlink::Error> next(std::string_view operation) {
    for (auto& fault : faults_) {
      if (fault.times == 0 || operation.find(fault.part) == std::string_view::npos) continue;
      if (fault.times > 0) --fault.times;
      auto error = fault.error;
      error.where = std::string(operation) + (error.where.empty() ? "" : ": " + error.where);
      return error;
    }
    return std::nullopt;
  }

 private:
  struct Fault {
    std::string part;
    netlink::Error error;
    int times = 0;
  };
  std::vector<Fault> faults_;
};

}  // namespace ipvsproxier::test

#pragma once

// FaultInjector: makes chosen operations of a fake fail, by what they say about themselves
// (to_string of the operation, or the name of the call: "list virtual services"). An operation may
// also happen and its answer be lost.

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netlink/result.h"

namespace ipvsproxier::test {

struct Fault {
  netlink::Error error;
  bool happens = false;  // the operation is done all the same
};

class FaultInjector {
 public:
  // The next `times` operations whose text contains `part` fail with this error, which names the
  // operation as the kernel tables' errors do. A negative `times` means for ever.
  void fail(std::string part, netlink::Error error, int times = -1) {
    rows_.push_back({std::move(part), {std::move(error)}, times});
  }

  // They happen, and the answer is `overrun`. What only reads fails with it.
  void lose(std::string part, int times = -1) {
    netlink::Error lost{netlink::ErrorKind::overrun, ENOBUFS, ""};
    rows_.push_back({std::move(part), {std::move(lost), true}, times});
  }

  // Asked for every operation that no row is about.
  void decide(std::function<std::optional<Fault>(std::string_view)> chance) {
    chance_ = std::move(chance);
  }

  void clear() {
    rows_.clear();
    chance_ = nullptr;
  }

  // How many operations were answered with a fault.
  std::size_t hits() const { return hits_; }

  // The answer to a listing, if it is to fail.
  std::optional<netlink::Error> next(std::string_view operation) {
    auto fault = choose(operation);
    if (!fault) return std::nullopt;
    return named(std::move(fault->error), operation);
  }

  // The answer to an operation that `perform`s.
  template <typename Perform>
  auto around(std::string_view operation, const Perform& perform) -> decltype(perform()) {
    auto fault = choose(operation);
    if (!fault) return perform();
    if (fault->happens)
      if (auto answer = perform(); !answer) return answer;
    return named(std::move(fault->error), operation);
  }

 private:
  struct Row {
    std::string part;
    Fault fault;
    int times = 0;
  };

  std::optional<Fault> choose(std::string_view operation) {
    for (auto& row : rows_) {
      if (row.times == 0 || operation.find(row.part) == std::string_view::npos) continue;
      if (row.times > 0) --row.times;
      ++hits_;
      return row.fault;
    }
    auto fault = chance_ ? chance_(operation) : std::nullopt;
    hits_ += fault ? 1 : 0;
    return fault;
  }

  static netlink::Error named(netlink::Error error, std::string_view operation) {
    error.where = std::string(operation) + (error.where.empty() ? "" : ": " + error.where);
    return error;
  }

  std::vector<Row> rows_;
  std::function<std::optional<Fault>(std::string_view)> chance_;
  std::size_t hits_ = 0;
};

}  // namespace ipvsproxier::test

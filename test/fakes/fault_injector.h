#pragma once

// FaultInjector: makes chosen operations of a fake fail, by what they say about themselves
// (to_string of the operation, or the name of the call: "list virtual services"). An operation may
// also happen and its answer be lost, happen late, or twice.

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
  std::optional<netlink::Error> error;  // the answer; nullopt: its own
  int times = 0;                        // how often it is done all the same
  // So many operations on the same fake are done before it. The next listing sees what became of
  // it in any case, as what a kernel was asked for it does before it answers the next question.
  int after = 0;
};

class FaultInjector {
 public:
  // The next `times` operations whose text contains `part` fail with this error, which names the
  // operation as the kernel tables' errors do. A negative `times` means for ever.
  void fail(std::string part, netlink::Error error, int times = -1) {
    rows_.push_back({std::move(part), {.error = std::move(error)}, times});
  }

  // They happen, and the answer is `overrun`. What only reads fails with it.
  void lose(std::string part, int times = -1) {
    netlink::Error lost{netlink::ErrorKind::overrun, ENOBUFS, ""};
    rows_.push_back({std::move(part), {.error = std::move(lost), .times = 1}, times});
  }

  // Asked for every operation that no row is about.
  void decide(std::function<std::optional<Fault>(std::string_view)> chance) {
    chance_ = std::move(chance);
  }

  // No more faults; what is late is done now.
  void clear() {
    rows_.clear();
    chance_ = nullptr;
    finish_late(0);
  }

  // How many operations were answered with a fault.
  std::size_t hits() const { return hits_; }

  // The answer to a listing, if it is to fail.
  std::optional<netlink::Error> next(std::string_view operation) {
    finish_late(0);
    auto fault = choose(operation);
    if (!fault || !fault->error) return std::nullopt;
    return named(*std::move(fault->error), operation);
  }

  // The answer to an operation that `perform`s, which may be called later and must not refer to
  // what ends before the fake.
  template <typename Perform>
  auto around(std::string_view operation, Perform perform) -> decltype(perform()) {
    auto fault = choose(operation);
    auto answer = [&]() -> decltype(perform()) {
      if (!fault) return perform();
      if (fault->after > 0) {
        late_.push_back({fault->after, [perform] { static_cast<void>(perform().has_value()); }});
        return named(fault->error.value(), operation);
      }
      for (int i = 0; i < fault->times; ++i)
        if (auto own = perform(); !own || (!fault->error && i + 1 == fault->times)) return own;
      return named(fault->error.value(), operation);
    }();
    finish_late(1);
    return answer;
  }

  // Called behind each operation that was late.
  std::function<void()> was_late = [] {};

 private:
  struct Row {
    std::string part;
    Fault fault;
    int times = 0;
  };

  struct Late {
    int after = 0;
    std::function<void()> perform;
  };

  // Another `operations` were done; none: nothing waits any longer.
  void finish_late(int operations) {
    std::vector<Late> waits;
    std::vector<Late> ready;
    for (auto& late : late_) {
      late.after -= operations;
      (operations == 0 || late.after < 0 ? ready : waits).push_back(std::move(late));
    }
    late_ = std::move(waits);
    for (const auto& late : ready) {
      late.perform();
      was_late();
    }
  }

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
  std::vector<Late> late_;
  std::function<std::optional<Fault>(std::string_view)> chance_;
  std::size_t hits_ = 0;
};

}  // namespace ipvsproxier::test

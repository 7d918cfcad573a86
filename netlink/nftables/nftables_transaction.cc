#include "netlink/nftables/nftables_transaction.h"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "netlink/nftables/nftables_codec.h"

namespace ipvsproxier::netlink {

namespace {

// The messages of a unit; `ops[i]` is the operation of message i.
struct UnitMessages {
  std::vector<Bytes> messages;
  std::vector<std::size_t> ops;
  std::size_t bytes = 0;
};

class UnitRun {
 public:
  UnitRun(std::span<const NftUnit> units, const SendNftBatch& send)
      : units_(units), send_(send), outcomes_(units.size()) {}

  std::vector<Status> run() {
    std::vector<std::size_t> group;
    std::size_t bytes = 0;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      encoded_.push_back(encode(units_[unit]));
      // Nothing to do is done.
      if (encoded_.back().messages.empty()) continue;
      if (!group.empty() && bytes + encoded_.back().bytes > kNftTransactionBytes) {
        apply(std::exchange(group, {}));
        bytes = 0;
      }
      group.push_back(unit);
      bytes += encoded_.back().bytes;
    }
    apply(group);
    return std::move(outcomes_);
  }

 private:
  UnitMessages encode(const NftUnit& unit) {
    UnitMessages result;
    for (std::size_t op = 0; op < unit.ops.size(); ++op) {
      append_nft_op(unit.ops[op], ++set_id_, result.messages);
      result.ops.resize(result.messages.size(), op);
    }
    for (const auto& message : result.messages) result.bytes += netlink_align(message.size());
    return result;
  }

  // Applies these units and forgets their messages.
  void apply(const std::vector<std::size_t>& group) {
    std::vector<std::size_t> suspects;
    settle(group, suspects);
    std::vector<std::size_t> again;
    settle(suspects, again);
    std::vector<std::size_t> none;
    for (const auto suspect : again)
      if (!stands_alone(outcomes_[suspect].error())) settle({suspect}, none);
    for (const auto unit : group) encoded_[unit] = {};
  }

  // Gives each of these units its outcome; `suspects` gets those to be tried again alone.
  void settle(std::vector<std::size_t> group, std::vector<std::size_t>& suspects) {
    while (!group.empty()) {
      if (const auto stop = stopped()) return fail_all(group, *stop);
      const auto outcome = send(group);
      if (outcome.whole) {
        for (const auto unit : group) outcomes_[unit] = Status();
        return;
      }
      ++failures_;
      if (!outcome.refusals.empty() && is_answer(outcome.whole.error())) {
        leave_out(group, outcome.refusals, suspects);
        continue;
      }
      silent_ = silent_ || outcome.whole.error().kind == ErrorKind::timeout;
      if (group.size() == 1 || !may_be_one(outcome.whole.error()))
        return fail_all(group, outcome.whole.error());
      const auto middle = group.begin() + static_cast<std::ptrdiff_t>(group.size() / 2);
      settle({group.begin(), middle}, suspects);
      group.erase(group.begin(), middle);
    }
  }

  BatchOutcome send(const std::vector<std::size_t>& group) const {
    std::vector<Bytes> messages;
    for (const auto unit : group)
      messages.insert(messages.end(), encoded_[unit].messages.begin(),
                      encoded_[unit].messages.end());
    return send_(messages);
  }

  // Takes the units that own these messages out of the group.
  void leave_out(std::vector<std::size_t>& group,
                 const std::vector<BatchOutcome::Refusal>& refusals,
                 std::vector<std::size_t>& suspects) {
    std::vector<std::size_t> others;
    bool first = true;
    auto refusal = refusals.begin();
    std::size_t begin = 0;
    for (const auto unit : group) {
      const auto& encoded = encoded_[unit];
      const auto end = begin + encoded.messages.size();
      if (refusal == refusals.end() || refusal->message >= end) {
        others.push_back(unit);
      } else {
        const auto& op = units_[unit].ops[encoded.ops[refusal->message - begin]];
        auto error = refusal->error;
        error.where = to_string(op) + (error.where.empty() ? "" : ": " + error.where);
        outcomes_[unit] = std::move(error);
        if (!first) suspects.push_back(unit);
        first = false;
        while (refusal != refusals.end() && refusal->message < end) ++refusal;
      }
      begin = end;
    }
    group = std::move(others);
  }

  void fail_all(const std::vector<std::size_t>& group, const Error& error) {
    for (const auto unit : group) {
      auto own = error;
      own.where = to_string(units_[unit].ops.front()) + (own.where.empty() ? "" : ": " + own.where);
      outcomes_[unit] = std::move(own);
    }
  }

  std::optional<Error> stopped() const {
    if (silent_) return not_sent();
    if (failures_ >= kMostNftFailures)
      return Error{ErrorKind::busy, EBUSY, "not sent: too many transactions were refused"};
    return std::nullopt;
  }

  // What exists already or is missing is so whatever the other units do: they are independent.
  static bool stands_alone(const Error& error) {
    return error.kind == ErrorKind::already || error.kind == ErrorKind::missing;
  }

  // Whether the kernel said it; otherwise its answers were lost.
  static bool is_answer(const Error& error) {
    return error.kind != ErrorKind::timeout && error.kind != ErrorKind::overrun;
  }

  // Whether it may be the fault of one unit, or of so many at once.
  static bool may_be_one(const Error& error) {
    return is_answer(error) && error.kind != ErrorKind::denied &&
           error.kind != ErrorKind::unsupported;
  }

  std::span<const NftUnit> units_;
  const SendNftBatch& send_;
  std::vector<UnitMessages> encoded_;
  std::vector<Status> outcomes_;
  std::uint32_t set_id_ = 0;
  std::size_t failures_ = 0;
  bool silent_ = false;
};

}  // namespace

std::vector<Status> apply_nft_units(std::span<const NftUnit> units, const SendNftBatch& send) {
  return UnitRun(units, send).run();
}

}  // namespace ipvsproxier::netlink

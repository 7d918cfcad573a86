#pragma once

// Assigns netlink answers to their requests: the part of a conversation that needs no socket.
// Values; one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

// An NLMSG_ERROR message: errno 0 is an acknowledgement.
struct Answer {
  int sys_errno = 0;  // positive
  // Text of NETLINK_EXT_ACK; without a text the place of the attribute that was refused; or "".
  std::string text;
};

// `malformed` if the payload is no nlmsgerr.
Result<Answer> decode_answer(const MessageView& message);

// The requests of one datagram and their answers. Only the last request asks for an acknowledgement
// (NLM_F_ACK). The kernel processes a datagram in order and reports every failure even without that
// flag (net/netlink/af_netlink.c, netlink_rcv_skb): once the last request is answered, an earlier
// request without an answer succeeded. A caller that knows of lost answers must call give_up(),
// because silence then proves nothing.
class AnswerWindow {
 public:
  // One sequence number for each request, in order; not empty.
  AnswerWindow(Operation operation, std::vector<std::uint32_t> sequences);

  // Reads a received datagram. Answers to other requests (late answers after a timeout) are
  // skipped. `malformed`: some bytes could not be read, so answers may be lost.
  Status take(ByteView datagram);

  // The last request is answered.
  bool complete() const { return complete_; }

  // Every request without an answer gets this error.
  void give_up(const Error& error);

  // One Status for each request; call it when complete() or after give_up().
  std::vector<Status> outcomes() && { return std::move(outcomes_); }

 private:
  void record(std::uint32_t sequence, const Answer& answer);

  Operation operation_;
  std::vector<std::uint32_t> sequences_;
  std::vector<bool> answered_;
  std::vector<Status> outcomes_;
  bool complete_ = false;
};

// What became of one transaction of nfnetlink.
struct BatchOutcome {
  struct Refusal {
    std::size_t message = 0;  // its place among the messages
    Error error;
  };

  // An error: nothing of the transaction was kept; or, for `overrun` and `timeout`, that is
  // unknown.
  Status whole;
  std::vector<Refusal> refusals;  // in order; the kernel may refuse the whole and name none
};

// The answers to a transaction of nfnetlink: a begin, messages of which the last asks for an
// acknowledgement, an end. The kernel answers every message that it refuses and, accepted or not,
// the last one, in order; it answers the begin if it refuses the whole: for its generation, for a
// missing privilege, or when it was about to commit (net/netfilter/nfnetlink.c,
// nfnetlink_rcv_batch()).
class BatchAnswers {
 public:
  // The begin has this sequence number, the messages the next ones. `messages` is not 0.
  BatchAnswers(Operation operation, std::uint32_t begin, std::size_t messages);

  // As AnswerWindow::take().
  Status take(ByteView datagram);

  // The last message or the begin is answered.
  bool complete() const { return complete_; }

  // The answers were lost: what became of the transaction is unknown.
  void give_up(const Error& error);

  // Call it when complete() or after give_up().
  BatchOutcome outcome() &&;

 private:
  void record(std::uint32_t index, const Answer& answer);

  Operation operation_;
  std::uint32_t begin_;
  std::size_t messages_;
  BatchOutcome outcome_;
  bool complete_ = false;
};

// Payloads in one contiguous buffer, so that a listing does not allocate per message.
class Payloads {
 public:
  void add(ByteView payload) {
    bytes_.insert(bytes_.end(), payload.begin(), payload.end());
    ends_.push_back(bytes_.size());
  }
  std::size_t size() const { return ends_.size(); }
  ByteView operator[](std::size_t index) const {
    const auto begin = index == 0 ? 0 : ends_[index - 1];
    return ByteView(bytes_).subspan(begin, ends_[index] - begin);
  }

 private:
  Bytes bytes_;
  std::vector<std::size_t> ends_;
};

// The messages of one dump, collected datagram by datagram.
class DumpCollector {
 public:
  explicit DumpCollector(std::uint32_t sequence) : sequence_(sequence) {}

  enum class State : std::uint8_t {
    more,         // NLMSG_DONE is still to come
    done,         // the listing is complete
    interrupted,  // complete, but the table changed meanwhile (NLM_F_DUMP_INTR): dump again
  };

  // Passes the datagram's payloads to `each`, in the kernel's order. At `done` the payloads are one
  // whole and consistent dump. An error is that of `each`, the kernel's answer to the request (with
  // its errno), or `malformed`.
  Result<State> take(Operation operation, ByteView datagram,
                     const std::function<Status(ByteView)>& each);

 private:
  std::uint32_t sequence_;
  bool interrupted_ = false;
};

}  // namespace ipvsproxier::netlink

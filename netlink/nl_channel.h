#pragma once

// NlChannel: one netlink socket and the conversations over it, one at a time: batches of changes,
// single queries, dumps. Not thread-safe; blocks until the kernel answers or the timeout expires.
// Errors carry the kernel's extended acknowledgement in `where`; callers add the attempted action
// with in_context().
//
// The project does not use libnl's send and receive functions: they lose the errno and the outcomes
// of single messages.
//
// Kernel facts (net/netlink/af_netlink.c, 6.1; figures measured in User Mode Linux): above 32
// messages a datagram, larger batches save only system calls. 128 acknowledgements or failures
// overflow the default receive buffer; the kernel then reports ENOBUFS once, ahead of the queued
// answers, and silently drops further answers until the queue was read empty (netlink_overrun). A
// receive buffer smaller than the dump's datagrams loses messages (MSG_TRUNC).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "netlink/nl_answers.h"
#include "netlink/nl_codec.h"
#include "netlink/result.h"

namespace ipvsproxier::netlink {

struct NlOptions {
  int receive_buffer = 4 << 20;  // bytes of SO_RCVBUFFORCE, or of SO_RCVBUF without the privilege
  std::chrono::milliseconds timeout{10'000};  // for each receive
  // NETLINK_GET_STRICT_CHK: the kernel uses the fields of a dump's header as a filter and refuses
  // unknown ones.
  bool filtered_dumps = false;
};

// Requests sent over a channel since it was opened.
struct NlCounters {
  std::uint64_t datagrams = 0;       // sent
  std::uint64_t write_requests = 0;  // messages sent by transact() and transact_batch()
  std::uint64_t query_requests = 0;
  std::uint64_t dump_requests = 0;  // retries included

  std::uint64_t requests() const { return write_requests + query_requests + dump_requests; }
};

// How a channel opens itself.
struct NlOpening {
  std::function<Status()> before;     // an error: it cannot be opened now
  std::function<void()> opened_late;  // called once, when it is opened after a failure
  std::function<std::chrono::steady_clock::time_point()> now = [] {
    return std::chrono::steady_clock::now();
  };
};

class NlChannel {
 public:
  static constexpr std::size_t kWindow = 256;  // messages in a datagram
  // Upper limit, unless one message is larger.
  static constexpr std::size_t kDatagramBytes = 48 * 1024;
  static constexpr std::size_t kBatchBytes = 16 << 20;
  static constexpr std::size_t kReceiveBytes = 64 * 1024;
  static constexpr int kDumpAttempts = 5;
  static constexpr std::chrono::seconds kOpeningPause{1};
  static constexpr std::chrono::seconds kLongestPause{30};

  // `protocol` is NETLINK_GENERIC, NETLINK_ROUTE, ...
  static Result<NlChannel> open(int protocol, const NlOptions& options = {});
  // Opens itself: now if it can, else when a conversation begins, after pauses that grow from
  // kOpeningPause to kLongestPause, because the kernel may start modprobe for each attempt. Until
  // then each conversation fails with the error of opening. `greet` is a conversation that comes
  // before all others; the channel is open once it succeeds.
  using Greet = std::function<Status(NlChannel&)>;
  NlChannel(int protocol, const NlOptions& options, NlOpening opening, Greet greet = {});
  NlChannel(NlChannel&&) noexcept;
  NlChannel& operator=(NlChannel&&) noexcept;
  ~NlChannel();

  // Opens it if it is not open yet and that is due; the error of opening.
  Status ready();

  // Sends the requests in order, several in a datagram; one Status for each. A failure does not
  // stop the requests that follow, but after a timeout nothing more is sent (result.h,
  // timed_out()). `overrun`: answers were lost and the outcome of this request is unknown; the
  // caller must list again what the request changes. `timeout`: no answer.
  std::vector<Status> transact(Operation operation, std::span<const Bytes> requests);

  // Sends the messages as one transaction of nfnetlink, framed by `begin` and `end`, in one
  // datagram: the kernel keeps all of it or nothing. There is at least one message. A transaction
  // that the socket cannot hold (more than kBatchBytes; without CAP_NET_ADMIN more than
  // net.core.wmem_max) is refused as a whole with EMSGSIZE. Nothing is repeated.
  BatchOutcome transact_batch(Operation operation, const Bytes& begin,
                              std::span<const Bytes> messages, const Bytes& end);

  // The number by which notifications name this socket as the one that asked for a change.
  std::uint32_t port() const;

  // Sends one request that has one answer; returns the payload of the answer.
  Result<Bytes> query(Operation operation, Bytes request);

  // Calls `each` for every message of a complete, consistent dump, in the kernel's order, until
  // `each` fails. A dump is repeated up to kDumpAttempts times if a change interrupted it, if the
  // kernel refused it because another dump runs on this socket (EBUSY), or if it overran.
  Status dump(Operation operation, const Bytes& request,
              const std::function<Status(ByteView)>& each);

  // Begins a dump that is read in parts. Between the parts the caller may do anything except use
  // this channel. The dump is not repeated: use it for tables whose dumps have no consistency
  // marks. Beginning another dump ends an unfinished one.
  Status begin_dump(Bytes request);
  // Passes the next messages' payloads to `each`; false after the last part. Call only after
  // begin_dump() and only until it returns false. `busy` with EINTR: that was the last part, and
  // the kernel marked the dump as interrupted by a change.
  Result<bool> next_of_dump(Operation operation, const std::function<Status(ByteView)>& each);
  // Reads the rest of an unfinished dump and discards it: the dump may hold resources in the
  // kernel.
  void end_dump();
  // Calls `each` for every message as it arrives, in memory that does not grow with the dump.
  // Nothing is repeated: on `busy` and `overrun` the messages passed so far are neither complete
  // nor consistent. `each` may use other channels.
  Status stream(Operation operation, const Bytes& request,
                const std::function<Status(ByteView)>& each);
  // Such a stream, repeated like dump(). `begin` is called before each attempt: messages passed to
  // `each` before are then void.
  Status stream_whole(Operation operation, const Bytes& request, const std::function<void()>& begin,
                      const std::function<Status(ByteView)>& each);

  const NlCounters& counters() const { return counters_; }

 private:
  struct Io;
  struct Waiting;

  static Result<std::unique_ptr<Io>> connect(int protocol, const NlOptions& options);
  explicit NlChannel(std::unique_ptr<Io> io);
  Status try_to_open(const Waiting& waiting);
  std::uint32_t next_sequence();
  std::uint32_t next_sequences(std::size_t count);
  Status send_batch(std::uint32_t sequence, const Bytes& begin, std::span<const Bytes> messages,
                    const Bytes& end);
  std::size_t window_at(std::span<const Bytes> requests) const;
  std::vector<Status> transact_window(Operation operation, std::span<const Bytes> requests);
  Status send(ByteView datagram);
  Result<ByteView> receive(bool wait);
  void drain();

  std::unique_ptr<Io> io_;            // nullptr: waiting_ has never opened it
  std::unique_ptr<Waiting> waiting_;  // nullptr: it is open
  std::uint32_t sequence_ = 0;
  std::optional<DumpCollector> dump_;  // begun and not yet read to its end
  NlCounters counters_;
};

// The id of a generic netlink family; `missing` if the kernel has none of this name.
Result<std::uint16_t> resolve_family(NlChannel& channel, std::string_view name);

// The same error with the attempted action in front, and with advice about a missing privilege.
Error in_context(Error error, std::string_view what);

}  // namespace ipvsproxier::netlink

#pragma once

// NlChannel: one netlink socket and the conversations over it, one at a time: batches of changes,
// single questions, dumps. Not thread-safe; blocks until the kernel answered or the timeout is
// over. Errors carry the kernel's extended acknowledgement in `where`; callers put what they tried
// in front of it with in_context().
//
// Kernel facts (net/netlink/af_netlink.c, 6.1; figures measured in User Mode Linux): what a batch
// gains above 32 messages a datagram are system calls alone; 128 acknowledgements, or failures,
// overflow the default receive buffer; the kernel then reports ENOBUFS once, ahead of what is still
// queued, and drops further answers without a word until the queue was read empty
// (netlink_overrun); a receive buffer smaller than the dump's datagrams loses messages (MSG_TRUNC).

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
  // The kernel takes what a dump's header names for a filter, and refuses what it does not know.
  bool filtered_dumps = false;
};

// What went over a channel since it was opened.
struct NlCounters {
  std::uint64_t datagrams = 0;       // sent
  std::uint64_t write_requests = 0;  // messages sent by transact()
  std::uint64_t query_requests = 0;
  std::uint64_t dump_requests = 0;  // retries included

  std::uint64_t requests() const { return write_requests + query_requests + dump_requests; }
};

class NlChannel {
 public:
  static constexpr std::size_t kWindow = 256;               // messages in a datagram
  static constexpr std::size_t kDatagramBytes = 48 * 1024;  // at most, unless one message is larger
  static constexpr std::size_t kReceiveBytes = 64 * 1024;
  static constexpr int kDumpAttempts = 5;

  // `protocol` is NETLINK_GENERIC, NETLINK_ROUTE, ...
  static Result<NlChannel> open(int protocol, const NlOptions& options = {});
  NlChannel(NlChannel&&) noexcept;
  NlChannel& operator=(NlChannel&&) noexcept;
  ~NlChannel();

  // Sends the requests in order, several in a datagram; one Status for each. A failure does not
  // stop those that follow, except that nothing more is sent after a timeout (result.h, timed_out).
  // `overrun`: answers were lost; the outcome of this request is unknown and what it changed must
  // be listed again. `timeout`: no answer.
  std::vector<Status> transact(Operation operation, std::span<const Bytes> requests);

  // One question with one answer: the answer's payload.
  Result<Bytes> query(Operation operation, Bytes request);

  // Calls `each` for every message of a complete, consistent dump, in the kernel's order, until it
  // fails. A dump that was interrupted by a change, refused because another one runs on this socket
  // (EBUSY) or overran is repeated up to kDumpAttempts times.
  Status dump(Operation operation, const Bytes& request,
              const std::function<Status(ByteView)>& each);

  // A dump in parts, where the caller may do something else in between, but not over this channel.
  // Not repeated: for tables without marks of consistency. One that was not read to its end is over
  // when the next begins.
  Status begin_dump(Bytes request);
  // The next messages' payloads; false when that was the last part. Only after begin_dump() and
  // while the answer was true.
  Result<bool> next_of_dump(Operation operation, const std::function<Status(ByteView)>& each);
  // What is left of one is read and thrown away: until then it may hold something in the kernel.
  void end_dump();
  // The whole dump without waiting for its end: `each` gets a message when it came, in memory that
  // does not grow with the dump. Nothing is repeated: `busy` and `overrun` are results here, and
  // what `each` got before is then not the whole, or not of one moment. `each` may use other
  // channels.
  Status stream(Operation operation, const Bytes& request,
                const std::function<Status(ByteView)>& each);
  // Such a stream, repeated as dump() repeats. `begin` is called before each attempt: what `each`
  // got before is void.
  Status stream_whole(Operation operation, const Bytes& request, const std::function<void()>& begin,
                      const std::function<Status(ByteView)>& each);

  const NlCounters& counters() const { return counters_; }

 private:
  struct Io;
  explicit NlChannel(std::unique_ptr<Io> io);

  std::uint32_t next_sequence();
  std::size_t window_at(std::span<const Bytes> requests) const;
  std::vector<Status> transact_window(Operation operation, std::span<const Bytes> requests);
  Status send(ByteView datagram);
  Result<ByteView> receive(bool wait);
  Result<bool> take_part(Operation operation, Payloads& payloads);
  void drain();

  std::unique_ptr<Io> io_;
  std::uint32_t sequence_ = 0;
  std::optional<DumpCollector> dump_;  // that was begun and not read to its end
  NlCounters counters_;
};

// The id of a generic netlink family; `missing` if the kernel has none of this name.
Result<std::uint16_t> resolve_family(NlChannel& channel, std::string_view name);

// The same error with `what` was tried in front, and what to do about a missing privilege.
Error in_context(Error error, std::string_view what);

}  // namespace ipvsproxier::netlink

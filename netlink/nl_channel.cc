#include "netlink/nl_channel.h"

#include <linux/netlink.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "netlink/nl_answers.h"
#include "netlink/nl_codec.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::netlink {

// Closing the socket closes its file descriptor.
struct NlChannel::Io {
  std::unique_ptr<nl_sock, HandleDeleter<nl_socket_free>> socket;
  std::chrono::milliseconds timeout{};
  Bytes buffer = Bytes(kReceiveBytes);
  Bytes datagram;  // the datagram that is being sent; reused

  int fd() const { return nl_socket_get_fd(socket.get()); }
};

struct NlChannel::Waiting {
  int protocol;
  NlOptions options;
  NlOpening opening;
  Greet greet;
  std::optional<Error> failure = {};  // of the last attempt
  std::chrono::steady_clock::time_point due = {};
  std::chrono::seconds pause = kOpeningPause;  // after the next failure
};

namespace {

constexpr int kDrainedDatagrams = 4096;

// Sets nlmsg_flags and nlmsg_seq in the header.
void stamp(std::span<std::uint8_t> request, std::uint32_t sequence, std::uint16_t more_flags) {
  nlmsghdr header;
  std::memcpy(&header, request.data(), sizeof header);
  header.nlmsg_flags = static_cast<std::uint16_t>(header.nlmsg_flags | more_flags);
  header.nlmsg_seq = sequence;
  std::memcpy(request.data(), &header, sizeof header);
}

void set_buffers(int fd, int bytes) {
  // FORCE needs CAP_NET_ADMIN; without it net.core.rmem_max is the limit.
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

// Lets the socket send a datagram of this size: the limit is the send buffer without 32 bytes
// (af_netlink.c, netlink_sendmsg()). The kernel doubles the number it is given.
void make_room(int fd, std::size_t datagram) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &size) != 0) return;
  if (static_cast<std::size_t>(bytes) > datagram + 32) return;
  bytes = static_cast<int>(datagram);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void set_flag(int fd, int option) {
  // The options only improve the answers (Linux 4.3, 4.12 and 4.20); an older kernel refuses them.
  const int on = 1;
  setsockopt(fd, SOL_NETLINK, option, &on, sizeof on);
}

Status for_each(const Payloads& payloads, const std::function<Status(ByteView)>& each) {
  for (std::size_t i = 0; i < payloads.size(); ++i)
    if (auto status = each(payloads[i]); !status) return status;
  return {};
}

Error lost(int sys_errno) {
  return Error{ErrorKind::overrun, sys_errno, "answers were lost; the outcome is unknown"};
}

}  // namespace

NlChannel::NlChannel(std::unique_ptr<Io> io) : io_(std::move(io)) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  sequence_ = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

NlChannel::NlChannel(NlChannel&&) noexcept = default;
NlChannel& NlChannel::operator=(NlChannel&&) noexcept = default;
NlChannel::~NlChannel() = default;

NlChannel::NlChannel(int protocol, const NlOptions& options, NlOpening opening, Greet greet)
    : NlChannel(std::unique_ptr<Io>()) {
  waiting_ =
      std::make_unique<Waiting>(Waiting{protocol, options, std::move(opening), std::move(greet)});
  static_cast<void>(ready());
}

Result<NlChannel> NlChannel::open(int protocol, const NlOptions& options) {
  auto io = connect(protocol, options);
  if (!io) return io.error();
  return NlChannel(*std::move(io));
}

Status NlChannel::ready() {
  if (!waiting_) return {};
  if (waiting_->failure && waiting_->opening.now() < waiting_->due) return *waiting_->failure;
  // The greeting is a conversation over this channel.
  auto waiting = std::move(waiting_);
  if (auto status = try_to_open(*waiting); !status) {
    waiting->failure = status.error();
    waiting->due = waiting->opening.now() + waiting->pause;
    waiting->pause = std::min(2 * waiting->pause, kLongestPause);
    waiting_ = std::move(waiting);
    return status;
  }
  if (waiting->failure && waiting->opening.opened_late) waiting->opening.opened_late();
  return {};
}

Status NlChannel::try_to_open(const Waiting& waiting) {
  if (waiting.opening.before)
    if (auto status = waiting.opening.before(); !status) return status;
  if (!io_) {
    auto io = connect(waiting.protocol, waiting.options);
    if (!io) return io.error();
    io_ = *std::move(io);
  }
  return waiting.greet ? waiting.greet(*this) : Status{};
}

Result<std::unique_ptr<NlChannel::Io>> NlChannel::connect(int protocol, const NlOptions& options) {
  auto io = std::make_unique<Io>();
  io->timeout = options.timeout;
  io->socket.reset(nl_socket_alloc());
  if (!io->socket) return make_error(Operation::generic, ENOMEM, "allocate a netlink socket");
  if (const int error = nl_connect(io->socket.get(), protocol); error != 0)
    return make_error(
        Operation::generic, errno != 0 ? errno : EIO,
        fmt::format("open a netlink socket of protocol {}: {}", protocol, nl_geterror(error)));
  set_buffers(io->fd(), options.receive_buffer);
  set_flag(io->fd(), NETLINK_EXT_ACK);
  set_flag(io->fd(), NETLINK_CAP_ACK);
  if (options.filtered_dumps) set_flag(io->fd(), NETLINK_GET_STRICT_CHK);
  return io;
}

std::uint32_t NlChannel::next_sequence() {
  // 0 is the sequence number of notifications.
  if (++sequence_ == 0) ++sequence_;
  return sequence_;
}

Status NlChannel::send(ByteView datagram) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  iovec part{const_cast<std::uint8_t*>(datagram.data()), datagram.size()};
  msghdr message{};
  message.msg_name = &kernel;
  message.msg_namelen = sizeof kernel;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  while (sendmsg(io_->fd(), &message, 0) < 0)
    if (errno != EINTR) return make_error(Operation::generic, errno, "send to the kernel");
  ++counters_.datagrams;
  return {};
}

Result<ByteView> NlChannel::receive(bool wait) {
  while (true) {
    sockaddr_nl sender{};
    iovec part{io_->buffer.data(), io_->buffer.size()};
    msghdr message{};
    message.msg_name = &sender;
    message.msg_namelen = sizeof sender;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // The kernel mostly answers during the send: try without waiting first.
    const auto size = recvmsg(io_->fd(), &message, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      pollfd poller{io_->fd(), POLLIN, 0};
      if (!wait || poll(&poller, 1, static_cast<int>(io_->timeout.count())) == 0)
        return Error{ErrorKind::timeout, ETIMEDOUT, "no answer from the kernel"};
      continue;
    }
    if (size < 0 && errno == ENOBUFS) {
      // The kernel silently drops all answers until it finds the queue empty.
      if (wait) drain();
      return lost(ENOBUFS);
    }
    if (size < 0) return make_error(Operation::generic, errno, "receive from the kernel");
    // Any process may send to our port; only the kernel sends from port 0.
    if (message.msg_namelen != sizeof sender || sender.nl_pid != 0) continue;
    if ((message.msg_flags & MSG_TRUNC) != 0) return lost(EMSGSIZE);
    return ByteView(io_->buffer).first(static_cast<std::size_t>(size));
  }
}

std::size_t NlChannel::window_at(std::span<const Bytes> requests) const {
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (count < requests.size() && count < kWindow) {
    bytes += netlink_align(requests[count].size());
    if (count > 0 && bytes > kDatagramBytes) break;
    ++count;
  }
  return count;
}

std::vector<Status> NlChannel::transact_window(Operation operation,
                                               std::span<const Bytes> requests) {
  std::vector<std::uint32_t> sequences;
  sequences.reserve(requests.size());
  auto& datagram = io_->datagram;
  datagram.clear();
  for (const auto& request : requests) {
    const auto start = datagram.size();
    sequences.push_back(next_sequence());
    datagram.insert(datagram.end(), request.begin(), request.end());
    datagram.resize(netlink_align(datagram.size()));
    stamp(std::span(datagram).subspan(start), sequences.back(),
          sequences.size() == requests.size() ? NLM_F_ACK : 0);
  }
  AnswerWindow window(operation, std::move(sequences));
  counters_.write_requests += requests.size();
  if (const auto sent = send(datagram); !sent) {
    window.give_up(sent.error());
    return std::move(window).outcomes();
  }
  while (!window.complete()) {
    const auto received = receive(true);
    if (!received) {
      window.give_up(received.error());
      break;
    }
    // The unreadable bytes may have been an answer.
    if (!window.take(*received)) {
      window.give_up(lost(EBADMSG));
      break;
    }
  }
  return std::move(window).outcomes();
}

std::vector<Status> NlChannel::transact(Operation operation, std::span<const Bytes> requests) {
  if (const auto open = ready(); !open) return std::vector<Status>(requests.size(), open);
  std::vector<Status> outcomes;
  outcomes.reserve(requests.size());
  while (!requests.empty()) {
    const auto count = window_at(requests);
    auto window = transact_window(operation, requests.first(count));
    requests = requests.subspan(count);
    const bool silent = timed_out(window);
    std::ranges::move(window, std::back_inserter(outcomes));
    if (!silent) continue;
    // Each further window would wait for the whole timeout again.
    outcomes.resize(outcomes.size() + requests.size(), not_sent());
    break;
  }
  return outcomes;
}

std::uint32_t NlChannel::port() const {
  return nl_socket_get_local_port(io_->socket.get());
}

// The first of so many numbers that follow one another.
std::uint32_t NlChannel::next_sequences(std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max() - sequence_) sequence_ = 0;
  const auto first = next_sequence();
  sequence_ = first + static_cast<std::uint32_t>(count - 1);
  return first;
}

Status NlChannel::send_batch(std::uint32_t sequence, const Bytes& begin,
                             std::span<const Bytes> messages, const Bytes& end) {
  if (auto open = ready(); !open) return open;
  std::size_t size = netlink_align(begin.size()) + netlink_align(end.size());
  for (const auto& message : messages) size += netlink_align(message.size());
  if (size > kBatchBytes)
    return make_error(Operation::generic, EMSGSIZE, fmt::format("send {} bytes at once", size));
  // Of its own: a transaction may be large, and mostly the next one is small.
  Bytes datagram;
  datagram.reserve(size);
  const auto add = [&](const Bytes& message, std::uint16_t more_flags) {
    const auto start = datagram.size();
    datagram.insert(datagram.end(), message.begin(), message.end());
    datagram.resize(netlink_align(datagram.size()));
    stamp(std::span(datagram).subspan(start), sequence++, more_flags);
  };
  add(begin, 0);
  for (const auto& message : messages) add(message, &message == &messages.back() ? NLM_F_ACK : 0);
  add(end, 0);
  make_room(io_->fd(), datagram.size());
  return send(datagram);
}

BatchOutcome NlChannel::transact_batch(Operation operation, const Bytes& begin,
                                       std::span<const Bytes> messages, const Bytes& end) {
  const auto sequence = next_sequences(messages.size() + 2);
  BatchAnswers answers(operation, sequence, messages.size());
  counters_.write_requests += messages.size();
  if (const auto sent = send_batch(sequence, begin, messages, end); !sent) {
    answers.give_up(sent.error());
    return std::move(answers).outcome();
  }
  while (!answers.complete()) {
    const auto received = receive(true);
    if (!received) {
      answers.give_up(received.error());
      break;
    }
    // The unreadable bytes may have been an answer.
    if (!answers.take(*received)) {
      answers.give_up(lost(EBADMSG));
      break;
    }
  }
  return std::move(answers).outcome();
}

Result<Bytes> NlChannel::query(Operation operation, Bytes request) {
  if (const auto open = ready(); !open) return open.error();
  const auto sequence = next_sequence();
  stamp(request, sequence, 0);
  ++counters_.query_requests;
  if (const auto sent = send(request); !sent) return sent.error();
  while (true) {
    const auto received = receive(true);
    if (!received) return received.error();
    ByteView datagram = *received;
    while (true) {
      const auto message = take_message(datagram);
      if (!message) return message.error();
      if (!*message) break;
      if ((*message)->sequence != sequence) continue;
      if ((*message)->type != NLMSG_ERROR)
        return Bytes((*message)->payload.begin(), (*message)->payload.end());
      const auto answer = decode_answer(**message);
      if (!answer) return answer.error();
      return make_error(operation, answer->sys_errno, answer->text);
    }
  }
}

// Discards the queued datagrams, at most kDrainedDatagrams.
void NlChannel::drain() {
  // Reading also makes the kernel continue, and so finish, an abandoned dump.
  for (int i = 0; i < kDrainedDatagrams; ++i)
    if (const auto received = receive(false);
        !received && received.error().kind == ErrorKind::timeout)
      return;
}

Status NlChannel::dump(Operation operation, const Bytes& request,
                       const std::function<Status(ByteView)>& each) {
  if (auto open = ready(); !open) return open;
  std::optional<Error> failure;
  for (int attempt = 0; attempt < kDumpAttempts; ++attempt) {
    Payloads payloads;
    const auto keep = [&](ByteView payload) {
      payloads.add(payload);
      return Status{};
    };
    auto more = Result<bool>(true);
    if (auto begun = begin_dump(request); !begun) more = begun.error();
    while (more && *more) more = next_of_dump(operation, keep);
    if (more) return for_each(payloads, each);
    failure = more.error();
    dump_.reset();
    if (failure->kind != ErrorKind::busy && failure->kind != ErrorKind::overrun) break;
    drain();
  }
  return *failure;
}

void NlChannel::end_dump() {
  if (dump_) drain();
  dump_.reset();
}

Status NlChannel::begin_dump(Bytes request) {
  if (auto open = ready(); !open) return open;
  end_dump();
  const auto sequence = next_sequence();
  stamp(request, sequence, NLM_F_DUMP);
  ++counters_.dump_requests;
  if (auto sent = send(request); !sent) return sent;
  dump_.emplace(sequence);
  return {};
}

Result<bool> NlChannel::next_of_dump(Operation operation,
                                     const std::function<Status(ByteView)>& each) {
  const auto received = receive(true);
  if (!received) return received.error();
  const auto state = dump_->take(operation, *received, each);
  if (!state) return state.error();
  if (*state == DumpCollector::State::more) return true;
  dump_.reset();
  if (*state == DumpCollector::State::interrupted)
    return Error{ErrorKind::busy, EINTR, "the table changed during the listing"};
  return false;
}

Status NlChannel::stream(Operation operation, const Bytes& request,
                         const std::function<Status(ByteView)>& each) {
  if (auto begun = begin_dump(request); !begun) return begun;
  for (auto more = Result<bool>(true); *more;) {
    more = next_of_dump(operation, each);
    if (more) continue;
    drain();
    dump_.reset();
    return more.error();
  }
  return {};
}

Status NlChannel::stream_whole(Operation operation, const Bytes& request,
                               const std::function<void()>& begin,
                               const std::function<Status(ByteView)>& each) {
  Status status;
  for (int attempt = 0; attempt < kDumpAttempts; ++attempt) {
    begin();
    status = stream(operation, request, each);
    if (status) break;
    if (status.error().kind != ErrorKind::busy && status.error().kind != ErrorKind::overrun) break;
  }
  return status;
}

Result<std::uint16_t> resolve_family(NlChannel& channel, std::string_view name) {
  const auto reply = channel.query(Operation::generic, encode_get_family(name));
  if (!reply) return in_context(reply.error(), fmt::format("find netlink family {}", name));
  return decode_family_id(*reply);
}

Error in_context(Error error, std::string_view what) {
  error.where = error.where.empty() ? std::string(what) : fmt::format("{}: {}", what, error.where);
  if (error.sys_errno == EPERM) error.where += ": needs CAP_NET_ADMIN";
  return error;
}

}  // namespace ipvsproxier::netlink

#include "proxier/serve/http_server.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <microhttpd.h>

#include "netlink/unique_fd.h"
#include "proxier/loop/mailbox.h"

namespace ipvsproxier::serve {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kWakeUp = 0;  // epoll's tag of the wake-up descriptor
constexpr std::uint64_t kFirstListener = 1;

// Pause of accepting while there is no room, and between looks at the end.
constexpr std::chrono::milliseconds kPause{20};
// Patience at the end with the daemon's thread, which may be in a handler, or wait for its turn on
// a loaded machine.
constexpr std::chrono::milliseconds kPatience{10'000};

struct DaemonDeleter {  // ends its connections and waits for its thread
  void operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }
};
struct ResponseDeleter {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};

MHD_Result add_argument(void* query, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[key] = value ? value : "";
  return MHD_YES;
}

MHD_Result queue(MHD_Connection* connection, HttpResponse answer) {
  const std::unique_ptr<MHD_Response, ResponseDeleter> response(MHD_create_response_from_buffer(
      answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY));
  if (!response) return MHD_NO;
  const auto add = [&](const char* name, const std::string& value) {
    return value.empty() || MHD_add_response_header(response.get(), name, value.c_str()) == MHD_YES;
  };
  if (!add(MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type)) return MHD_NO;
  for (const auto& [name, value] : answer.headers)
    if (!add(name.c_str(), value)) return MHD_NO;
  return MHD_queue_response(connection, answer.status, response.get());
}

}  // namespace

struct HttpServer::State {
  struct Listener {
    netlink::UniqueFd fd;
    HttpHandler handler;
    std::size_t connections = 0;
  };
  struct Connection {
    Id listener = 0;
    Clock::time_point since;  // time of its last answer, or its begin
    bool taken = false;       // by the daemon's thread
    bool ended = false;       // by us; the daemon will notice it
  };
  struct Patient {  // a listener that tries again
    std::string name;
    ListenAddress address;
    HttpHandler handler;
  };

  State(spdlog::logger& log, HttpLimits lims);
  ~State();

  netlink::Result<Listening> add(ListenSocket socket, HttpHandler handler);
  netlink::Result<Listening> open_and_add(const ListenAddress& address, HttpHandler handler);
  void remove(Id id);
  void wake_up() const;

  // The thread that accepts.
  void run();
  int wait_ms() const;
  std::size_t hard_limit() const { return limits.connections * 2; }
  void accept_from(Id id);
  netlink::Result<int> accept_one(Id id);
  void make_room(Id id) IPVSPROXIER_THREADS(requires_capability(mutex));
  void end_oldest(std::optional<Id> of) IPVSPROXIER_THREADS(requires_capability(mutex));
  void retry();

  bool all_taken() const;

  // The daemon's thread.
  void take(int fd);
  void forget(int fd);
  MHD_Result answer(MHD_Connection* connection, const char* path, const char* method);

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path,
                               const char* method, const char* version, const char* upload,
                               std::size_t* upload_size, void** received);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code);

  spdlog::logger& logger;
  const HttpLimits limits;
  netlink::UniqueFd epoll;
  netlink::UniqueFd wake;
  std::atomic<bool> stopping{false};

  mutable loop::Mutex mutex;
  Id next_id IPVSPROXIER_THREADS(guarded_by(mutex)) = kFirstListener;
  std::map<Id, Listener> listeners IPVSPROXIER_THREADS(guarded_by(mutex));
  std::unordered_map<int, Connection> connections IPVSPROXIER_THREADS(guarded_by(mutex));
  std::vector<Patient> patients IPVSPROXIER_THREADS(guarded_by(mutex));
  std::optional<Clock::time_point> retry_at IPVSPROXIER_THREADS(guarded_by(mutex));

  std::unique_ptr<MHD_Daemon, DaemonDeleter> daemon;  // its callbacks use the members above
  std::thread thread;
};

namespace {

// Blocks signals for threads that are started meanwhile: signals belong to the main loop.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

HttpServer::State::State(spdlog::logger& log, HttpLimits lims)
    : logger(log),
      limits(lims),
      epoll(::epoll_create1(EPOLL_CLOEXEC)),
      wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!epoll || !wake) throw std::runtime_error("no descriptor left for the HTTP server");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeUp}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    throw std::runtime_error("the HTTP server cannot be woken up");
  const NoSignals no_signals;
  // One daemon for all listeners; our thread passes connections to it. It uses poll(): with epoll,
  // version 0.9.75 may miss the end of a connection that comes together with data, and we could
  // then not end that connection. Its own limit is above ours and never reached, because it refuses
  // new connections where we end old ones.
  daemon.reset(MHD_start_daemon(
      MHD_USE_POLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET, 0,
      nullptr, nullptr, &on_request, this, MHD_OPTION_CONNECTION_LIMIT,
      static_cast<unsigned>(hard_limit()), MHD_OPTION_CONNECTION_TIMEOUT,
      static_cast<unsigned>(limits.silence.count()), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      limits.connection_memory, MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this,
      MHD_OPTION_END));
  if (!daemon) throw std::runtime_error("the HTTP server does not start");
  thread = std::thread([this] { run(); });
}

HttpServer::State::~State() {
  stopping = true;
  wake_up();
  thread.join();
  // MHD_stop_daemon() closes connections that the daemon's thread has not taken yet, and does so
  // without the lock under which they were added (0.9.75).
  for (auto waited = kPause; !all_taken() && waited < kPatience; waited += kPause)
    std::this_thread::sleep_for(kPause);
}

bool HttpServer::State::all_taken() const {
  const loop::MutexLock lock(mutex);
  return std::ranges::all_of(connections, [](const auto& entry) { return entry.second.taken; });
}

void HttpServer::State::take(int fd) {
  const loop::MutexLock lock(mutex);
  const auto it = connections.find(fd);
  if (it != connections.end()) it->second.taken = true;
}

void HttpServer::State::wake_up() const {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then the thread is awake.
  if (::write(wake.get(), &one, sizeof one) < 0) return;
}

netlink::Result<HttpServer::Listening> HttpServer::State::add(ListenSocket socket,
                                                              HttpHandler handler) {
  const loop::MutexLock lock(mutex);
  const Id id = next_id++;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.fd.get(), &event) != 0)
    return netlink::make_error(netlink::Operation::generic, errno,
                               "wait for connections to port " + std::to_string(socket.port));
  listeners.emplace(id, Listener{.fd = std::move(socket.fd), .handler = std::move(handler)});
  return Listening{.id = id, .port = socket.port};
}

netlink::Result<HttpServer::Listening> HttpServer::State::open_and_add(const ListenAddress& address,
                                                                       HttpHandler handler) {
  auto socket = open_listen_socket(address);
  if (!socket) return std::move(socket.error());
  return add(*std::move(socket), std::move(handler));
}

void HttpServer::State::remove(Id id) {
  const loop::MutexLock lock(mutex);
  listeners.erase(id);
  // The daemon closes the connections; until it calls forget(), their descriptors belong to it.
  for (auto& [fd, connection] : connections)
    if (connection.listener == id && !std::exchange(connection.ended, true))
      ::shutdown(fd, SHUT_RDWR);
}

void HttpServer::State::run() {
  pthread_setname_np(pthread_self(), "http-accept");
  std::array<epoll_event, 64> events{};
  while (!stopping) {
    const int count = ::epoll_wait(epoll.get(), events.data(), events.size(), wait_ms());
    for (int i = 0; i < count; ++i) {
      const auto id = events.at(static_cast<std::size_t>(i)).data.u64;
      std::uint64_t ignored = 0;
      if (id != kWakeUp)
        accept_from(id);
      else if (::read(wake.get(), &ignored, sizeof ignored) < 0)
        continue;
    }
    retry();
  }
}

int HttpServer::State::wait_ms() const {
  const loop::MutexLock lock(mutex);
  if (!retry_at) return -1;
  const auto until = std::chrono::ceil<std::chrono::milliseconds>(*retry_at - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(until.count(), 0));
}

// Accepts one connection each time that epoll reports one. Without descriptors accept4() fails even
// if no connection waits, so it must not be a reason to end one.
void HttpServer::State::accept_from(Id id) {
  const auto fd = accept_one(id);
  if (fd) {
    // The daemon closes a descriptor that it does not take.
    if (MHD_add_connection(daemon.get(), *fd, nullptr, 0) != MHD_YES) forget(*fd);
  } else if (fd.error().kind == netlink::ErrorKind::overrun) {
    // The listener stays readable: without this pause the loop would be busy.
    std::this_thread::sleep_for(kPause);
  }
}

// `overrun`: a connection waits, but there is no room, descriptor or memory for it.
netlink::Result<int> HttpServer::State::accept_one(Id id) {
  const loop::MutexLock lock(mutex);
  const auto listener = listeners.find(id);
  if (listener == listeners.end()) return netlink::Error{netlink::ErrorKind::missing, 0, "accept"};
  // Connections that we ended count until the daemon has noticed. Beyond its own limit the daemon
  // would close a connection without telling us.
  if (connections.size() >= hard_limit())
    return netlink::Error{netlink::ErrorKind::overrun, 0, "accept"};
  const int fd =
      ::accept4(listener->second.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
      return netlink::Error{netlink::ErrorKind::missing, errno, "accept"};
    const netlink::Error error{netlink::ErrorKind::overrun, errno, "accept"};
    end_oldest(std::nullopt);
    return error;
  }
  make_room(id);
  ++listener->second.connections;
  connections.insert_or_assign(fd, Connection{.listener = id, .since = Clock::now()});
  return fd;
}

void HttpServer::State::make_room(Id id) {
  if (listeners.at(id).connections >= limits.connections_per_listener)
    end_oldest(id);
  else if (connections.size() >= limits.connections)
    end_oldest(std::nullopt);
}

void HttpServer::State::end_oldest(std::optional<Id> of) {
  auto oldest = connections.end();
  for (auto it = connections.begin(); it != connections.end(); ++it) {
    const auto& connection = it->second;
    if (connection.ended || (of && connection.listener != *of)) continue;
    if (oldest == connections.end() || connection.since < oldest->second.since) oldest = it;
  }
  if (oldest == connections.end()) return;
  oldest->second.ended = true;
  ::shutdown(oldest->first, SHUT_RDWR);
}

void HttpServer::State::forget(int fd) {
  const loop::MutexLock lock(mutex);
  const auto it = connections.find(fd);
  if (it == connections.end()) return;
  const auto listener = listeners.find(it->second.listener);
  if (listener != listeners.end()) --listener->second.connections;
  connections.erase(it);
}

void HttpServer::State::retry() {
  std::vector<Patient> due;
  {
    const loop::MutexLock lock(mutex);
    if (!retry_at || Clock::now() < *retry_at) return;
    retry_at.reset();
    due = std::exchange(patients, {});
  }
  for (auto& patient : due) {
    if (open_and_add(patient.address, patient.handler)) {
      logger.info("{}: listening on {}", patient.name, to_string(patient.address));
      continue;
    }
    const loop::MutexLock lock(mutex);
    patients.push_back(std::move(patient));
    retry_at = Clock::now() + limits.retry;
  }
}

MHD_Result HttpServer::State::answer(MHD_Connection* connection, const char* path,
                                     const char* method) {
  HttpRequest request{.method = method, .path = path, .query = {}};
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &add_argument, &request.query);
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (!info) return MHD_NO;
  HttpResponse response;
  {
    const loop::MutexLock lock(mutex);
    const auto it = connections.find(info->connect_fd);
    if (it == connections.end()) return MHD_NO;
    const auto listener = listeners.find(it->second.listener);
    // Closed meanwhile: any answer would be wrong.
    if (listener == listeners.end()) return MHD_NO;
    it->second.since = Clock::now();
    // Called with the lock held, so that after close() the handler no longer runs.
    response = listener->second.handler(request);
  }
  return queue(connection, std::move(response));
}

MHD_Result HttpServer::State::on_request(void* self, MHD_Connection* connection, const char* path,
                                         const char* method, const char* /*version*/,
                                         const char* /*upload*/, std::size_t* upload_size,
                                         void** received) {
  auto& state = *static_cast<State*>(self);
  // *received: nullptr at the first call, with only the header read; later 1 + bytes of the body.
  auto count = reinterpret_cast<std::uintptr_t>(*received);
  const bool first = count == 0;
  count += first ? 1 : *upload_size;
  *received = reinterpret_cast<void*>(count);
  if (first) return MHD_YES;
  if (*upload_size > 0) {
    *upload_size = 0;
    return count > state.limits.request_body ? MHD_NO : MHD_YES;
  }
  try {
    return state.answer(connection, path, method);
  } catch (const std::exception& error) {  // must not pass through C frames
    state.logger.error("{} {}: {}; the connection ends", method, path, error.what());
    return MHD_NO;
  }
}

void HttpServer::State::on_connection(void* self, MHD_Connection* connection, void** /*context*/,
                                      MHD_ConnectionNotificationCode code) {
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (!info) return;
  auto& state = *static_cast<State*>(self);
  if (code == MHD_CONNECTION_NOTIFY_STARTED)
    state.take(info->connect_fd);
  else
    state.forget(info->connect_fd);
}

HttpServer::HttpServer(spdlog::logger& logger, HttpLimits limits)
    : state_(std::make_unique<State>(logger, limits)) {}

HttpServer::~HttpServer() = default;

netlink::Result<HttpServer::Listening> HttpServer::listen(const ListenAddress& address,
                                                          HttpHandler handler) {
  return state_->open_and_add(address, std::move(handler));
}

netlink::Result<HttpServer::Listening> HttpServer::serve(ListenSocket socket, HttpHandler handler) {
  return state_->add(std::move(socket), std::move(handler));
}

netlink::Result<HttpServer::Listening> HttpServer::keep_listening(const std::string& name,
                                                                  const ListenAddress& address,
                                                                  HttpHandler handler) {
  auto listening = state_->open_and_add(address, handler);
  if (listening) return listening;
  state_->logger.error("{}: {}; trying again every {} ms", name,
                       netlink::to_string(listening.error()), state_->limits.retry.count());
  {
    const loop::MutexLock lock(state_->mutex);
    state_->patients.push_back({name, address, std::move(handler)});
    if (!state_->retry_at) state_->retry_at = Clock::now() + state_->limits.retry;
  }
  state_->wake_up();
  return listening;
}

void HttpServer::close(Id id) {
  state_->remove(id);
}

HttpServer::Counts HttpServer::counts() const {
  const loop::MutexLock lock(state_->mutex);
  return {.listeners = state_->listeners.size(), .connections = state_->connections.size()};
}

}  // namespace ipvsproxier::serve

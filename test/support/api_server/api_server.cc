#include "test/support/api_server/api_server.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "test/support/api_server/front.h"
#include "test/support/api_server/http2_front.h"
#include "test/support/api_server/socket_faults.h"
#include "test/support/api_server/state.h"

namespace ipvsproxier::test {

using netlink::Result;
using netlink::Status;

struct ApiServer::Impl {
  explicit Impl(ServerOptions options) : state(std::move(options)) {}

  // Running watches take over what they have not told yet, before history goes.
  void pull_watches() IPVSPROXIER_THREADS(requires_capability(state.mutex)) {
    for (auto* watch : state.watches)
      watch->pull(state.store, state.faults[watch->resource()], RunningWatch::Clock::now());
  }

  template <typename Do>
  void each_watch(Resource resource, const Do& act) {
    const loop::MutexLock lock(state.mutex);
    for (auto* watch : state.watches)
      if (watch->resource() == resource) act(*watch);
    state.changed.notify_all();
  }

  Status start_fronts() IPVSPROXIER_THREADS(requires_capability(running)) {
    const auto [http2, tls] = [this] {
      const loop::MutexLock lock(state.mutex);
      return std::pair(state.options.http2, state.options.tls);
    }();
    auto started = Front::start(state, http2 ? 0 : port, !http2);
    if (!started) return started.error();
    front = *std::move(started);
    if (!http2) {
      port = front->port();
      return {};
    }
    auto before = Http2Front::start(port, front->port(), tls);
    if (!before) return before.error();
    http2_front = *std::move(before);
    port = http2_front->port();
    return {};
  }

  // What clients are connected to.
  void each_socket(const std::function<void(int socket, bool listening)>& visit)
      IPVSPROXIER_THREADS(requires_capability(running, state.mutex)) {
    if (http2_front) return http2_front->each_socket(visit);
    if (!front) return;
    visit(front->listener(), true);
    for (const int socket : state.sockets) visit(socket, false);
  }

  ServerState state;
  loop::Mutex running;  // taken before the state's lock
  std::unique_ptr<Front> front IPVSPROXIER_THREADS(guarded_by(running));
  std::unique_ptr<Http2Front> http2_front IPVSPROXIER_THREADS(guarded_by(running));
  std::uint16_t port IPVSPROXIER_THREADS(guarded_by(running)) = 0;
};

ApiServer::ApiServer(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
ApiServer::~ApiServer() {
  stop();
}

Result<std::unique_ptr<ApiServer>> ApiServer::start(ServerOptions options) {
  std::unique_ptr<ApiServer> server(new ApiServer(std::move(options)));
  if (auto started = server->resume(); !started) return started.error();
  return server;
}

std::uint16_t ApiServer::port() const {
  const loop::MutexLock lock(impl_->running);
  return impl_->port;
}

std::string ApiServer::url() const {
  return fmt::format("http{}://127.0.0.1:{}", options().tls ? "s" : "", port());
}

ServerOptions ApiServer::options() const {
  const loop::MutexLock lock(impl_->state.mutex);
  return impl_->state.options;
}

// --- the store
// --------------------------------------------------------------------------------------

Status ApiServer::put(std::string_view json) {
  const loop::MutexLock lock(impl_->state.mutex);
  auto done = impl_->state.store.put(json);
  impl_->state.changed.notify_all();
  return done;
}

Status ApiServer::put_raw(std::string_view json, std::string_view raw) {
  const loop::MutexLock lock(impl_->state.mutex);
  auto done = impl_->state.store.put_raw(json, raw);
  impl_->state.changed.notify_all();
  return done;
}

Status ApiServer::put_all(const std::vector<std::string>& objects) {
  const loop::MutexLock lock(impl_->state.mutex);
  Status done;
  for (const auto& object : objects)
    if (done) done = impl_->state.store.put(object);
  impl_->state.changed.notify_all();
  return done;
}

bool ApiServer::remove(Resource resource, std::string_view name, std::string_view name_space) {
  const loop::MutexLock lock(impl_->state.mutex);
  const bool was = impl_->state.store.remove(resource, name, name_space);
  impl_->state.changed.notify_all();
  return was;
}

void ApiServer::clear(Resource resource) {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->pull_watches();
  impl_->state.store.clear(resource);
}

std::uint64_t ApiServer::version() const {
  const loop::MutexLock lock(impl_->state.mutex);
  return impl_->state.store.version();
}

void ApiServer::set_version(std::uint64_t version) {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->pull_watches();
  impl_->state.store.set_version(version);
  impl_->state.changed.notify_all();
}

void ApiServer::compact() {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->pull_watches();
  impl_->state.store.compact();
}

std::size_t ApiServer::count(Resource resource) const {
  const loop::MutexLock lock(impl_->state.mutex);
  return impl_->state.store.count(resource);
}

std::string ApiServer::object(Resource resource, std::string_view name,
                              std::string_view name_space) const {
  const loop::MutexLock lock(impl_->state.mutex);
  const auto* found = impl_->state.store.find(resource, name, name_space);
  return found == nullptr ? "" : found->text;
}

// --- misbehaviour
// -----------------------------------------------------------------------------------

void ApiServer::set_faults(Resource resource, Faults faults) {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->state.faults[resource] = std::move(faults);
  impl_->state.changed.notify_all();
}

void ApiServer::set_faults(Faults faults) {
  const loop::MutexLock lock(impl_->state.mutex);
  for (const auto resource : kResources) impl_->state.faults[resource] = faults;
  impl_->state.event_faults = std::move(faults);
  impl_->state.changed.notify_all();
}

void ApiServer::clear_faults() {
  set_faults(Faults{});
}

void ApiServer::end_watches(Resource resource) {
  impl_->each_watch(resource, [](RunningWatch& watch) { watch.end(); });
}

void ApiServer::end_watches() {
  for (const auto resource : kResources) end_watches(resource);
}

void ApiServer::expire_watches(Resource resource) {
  auto& state = impl_->state;
  impl_->each_watch(resource, [&state](RunningWatch& watch) IPVSPROXIER_THREADS(
                                  no_thread_safety_analysis) { watch.expire(state.store); });
}

void ApiServer::expire_watches() {
  for (const auto resource : kResources) expire_watches(resource);
}

void ApiServer::send_bookmark(Resource resource) {
  auto& state = impl_->state;
  impl_->each_watch(resource,
                    [&state](RunningWatch& watch) IPVSPROXIER_THREADS(no_thread_safety_analysis) {
                      watch.bookmark(state.store, state.faults[watch.resource()]);
                    });
}

void ApiServer::send_raw(Resource resource, std::string text) {
  impl_->each_watch(resource, [&text](RunningWatch& watch) { watch.raw(text); });
}

void ApiServer::reset_connections() {
  const loop::MutexLock running(impl_->running);
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->each_socket([](int socket, bool listening) {
    if (!listening) reset_connection(socket);
  });
}

void ApiServer::vanish() {
  const loop::MutexLock running(impl_->running);
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->state.vanished = true;
  impl_->each_socket([](int socket, bool) { drop_packets(socket, true); });
}

void ApiServer::reappear() {
  const loop::MutexLock running(impl_->running);
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->each_socket([](int socket, bool) { drop_packets(socket, false); });
  impl_->state.vanished = false;
  impl_->state.changed.notify_all();
}

void ApiServer::set_token(std::string token) {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->state.options.token = std::move(token);
}

void ApiServer::set_streaming_lists(bool on) {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->state.options.streaming_lists = on;
}

Status ApiServer::set_tls(std::optional<ServerTls> tls) {
  stop();
  {
    const loop::MutexLock lock(impl_->state.mutex);
    impl_->state.options.tls = std::move(tls);
  }
  return resume();
}

void ApiServer::stop() {
  const loop::MutexLock running(impl_->running);
  impl_->http2_front.reset();
  impl_->front.reset();
}

Status ApiServer::resume() {
  const loop::MutexLock running(impl_->running);
  if (impl_->front) return {};
  return impl_->start_fronts();
}

// --- what clients did
// -------------------------------------------------------------------------------

std::vector<LoggedRequest> ApiServer::requests() const {
  const loop::MutexLock lock(impl_->state.mutex);
  return {impl_->state.log.begin(), impl_->state.log.end()};
}

void ApiServer::clear_requests() {
  const loop::MutexLock lock(impl_->state.mutex);
  impl_->state.log_cleared += impl_->state.log.size();
  impl_->state.log.clear();
}

std::vector<std::string> ApiServer::events() const {
  const loop::MutexLock lock(impl_->state.mutex);
  return impl_->state.events.documents();
}

std::size_t ApiServer::connections() const {
  const loop::MutexLock lock(impl_->state.mutex);
  return impl_->state.sockets.size();
}

std::size_t ApiServer::watches(Resource resource) const {
  const loop::MutexLock lock(impl_->state.mutex);
  std::size_t count = 0;
  for (const auto* watch : impl_->state.watches) count += watch->resource() == resource ? 1 : 0;
  return count;
}

bool ApiServer::wait_for(const std::function<bool(const ApiServer&)>& condition) const {
  constexpr std::chrono::milliseconds kStep{2};
  for (std::chrono::milliseconds waited{0}; waited < std::chrono::seconds(10); waited += kStep) {
    if (condition(*this)) return true;
    std::this_thread::sleep_for(kStep);
  }
  return condition(*this);
}

bool ApiServer::wait_for_watches(Resource resource, std::size_t count) const {
  return wait_for([&](const ApiServer& server) { return server.watches(resource) == count; });
}

bool ApiServer::wait_for_requests(std::size_t count) const {
  return wait_for([&](const ApiServer& server) { return server.requests().size() >= count; });
}

}  // namespace ipvsproxier::test

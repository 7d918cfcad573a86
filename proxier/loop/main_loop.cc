#include "proxier/loop/main_loop.h"

#include <curl/curl.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

#include "proxier/loop/mailbox.h"

namespace ipvsproxier::loop {

namespace {

using Clock = MainLoop::Clock;
using Function = MainLoop::Function;

// curl counts the initializations, so another owner in the program does no harm.
class CurlLibrary {
 public:
  CurlLibrary() {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      throw std::runtime_error("libcurl cannot be initialised");
  }
  CurlLibrary(const CurlLibrary&) = delete;
  CurlLibrary& operator=(const CurlLibrary&) = delete;
  ~CurlLibrary() { curl_global_cleanup(); }
};

struct MultiCleanup {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

// Functions posted by other threads, in order.
struct Posted {
  std::deque<Function> functions;

  bool empty() const { return functions.empty(); }
  void merge(Posted later) {
    std::move(later.functions.begin(), later.functions.end(), std::back_inserter(functions));
  }
};

struct Watch {
  std::uint64_t id = 0;
  Function then;
};

struct Deadline {
  std::uint64_t id = 0;
  Clock::time_point when;
  Function then;
};

// Deadlines at the same moment run in the order in which they were set.
std::pair<Clock::time_point, std::uint64_t> order(const Deadline& deadline) {
  return {deadline.when, deadline.id};
}

std::runtime_error system_error(const char* what) {
  return std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

struct MainLoop::State {
  CurlLibrary library;
  std::unique_ptr<CURLM, MultiCleanup> multi{curl_multi_init()};
  std::map<int, Watch> watches;
  std::map<std::string, Deadline> deadlines;
  std::uint64_t next_id = 0;  // for watches and deadlines; ascending
  int signal_fd = -1;
  sigset_t signal_mask{};
  std::map<int, std::function<void(int)>> signal_functions;
  Mailbox<Posted> posted;
  std::deque<Function> taken;  // posted functions that have not run yet
  std::atomic<bool> quitting{false};
  // By their easy handles.
  std::map<void*, std::unique_ptr<Transfer>> starting;
  std::map<void*, std::unique_ptr<Transfer>> running;  // running, or done
  std::vector<std::unique_ptr<Transfer>> dropped;  // destroyed once no function of a transfer runs
  bool in_transfers = false;

  State() {
    sigemptyset(&signal_mask);
    // curl also makes multi handles that lack the descriptors for wake-ups.
    if (!multi || curl_multi_wakeup(multi.get()) != CURLM_OK)
      throw std::runtime_error("the main loop cannot start: no memory or no file descriptors left");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (signal_fd >= 0) ::close(signal_fd);
    finish_transfers();
    for (const auto& [easy, transfer] : running) curl_multi_remove_handle(multi.get(), easy);
  }

  void turn();
  int timeout_ms() const;
  void run_posted();
  void run_watch(int fd, std::uint64_t id);
  void run_deadlines();
  void take_signal();
  void start_transfers();
  void run_transfers();
  void finish_transfers();
  void drop(void* easy);
};

// Time until the next deadline; limited, because curl_multi_poll has no infinite timeout.
int MainLoop::State::timeout_ms() const {
  constexpr std::chrono::milliseconds kMost = std::chrono::hours(1);
  if (!taken.empty()) return 0;
  const auto now = Clock::now();
  auto wait = kMost;
  for (const auto& [name, deadline] : deadlines) {
    if (deadline.when <= now) return 0;
    if (deadline.when - now < wait)
      wait = std::chrono::ceil<std::chrono::milliseconds>(deadline.when - now);
  }
  return static_cast<int>(std::min(wait, kMost).count());
}

void MainLoop::State::turn() {
  start_transfers();
  std::vector<curl_waitfd> fds;
  std::vector<std::uint64_t> ids;
  for (const auto& [fd, watch] : watches) {
    fds.push_back(curl_waitfd{.fd = fd, .events = CURL_WAIT_POLLIN, .revents = 0});
    ids.push_back(watch.id);
  }
  const auto outcome = curl_multi_poll(multi.get(), fds.data(), static_cast<unsigned>(fds.size()),
                                       timeout_ms(), nullptr);
  if (outcome != CURLM_OK)
    throw std::runtime_error(std::string("the main loop cannot wait: ") +
                             curl_multi_strerror(outcome));
  run_posted();
  for (std::size_t i = 0; i < fds.size() && !quitting; ++i)
    if (fds[i].revents != 0) run_watch(fds[i].fd, ids[i]);
  if (!quitting) run_transfers();
  run_deadlines();
}

void MainLoop::State::start_transfers() {
  auto fresh = std::exchange(starting, {});
  in_transfers = true;
  for (auto& [easy, transfer] : fresh) {
    const auto outcome = curl_multi_add_handle(multi.get(), easy);
    auto& kept = *(running[easy] = std::move(transfer));
    if (outcome != CURLM_OK) kept.on_done(CURLE_OUT_OF_MEMORY);
  }
  in_transfers = false;
  finish_transfers();
}

void MainLoop::State::run_transfers() {
  in_transfers = true;
  int count = 0;
  const auto outcome = curl_multi_perform(multi.get(), &count);
  if (outcome != CURLM_OK)
    throw std::runtime_error(std::string("the main loop cannot transfer: ") +
                             curl_multi_strerror(outcome));
  while (const CURLMsg* message = curl_multi_info_read(multi.get(), &count)) {
    void* const easy = message->easy_handle;
    const auto result = message->data.result;  // read now: the message dies with the handle
    const auto found = running.find(easy);
    if (message->msg != CURLMSG_DONE || found == running.end()) continue;
    curl_multi_remove_handle(multi.get(), easy);
    found->second->on_done(result);
  }
  in_transfers = false;
  finish_transfers();
}

// During a callback curl does not let go of a handle, so dropped transfers are removed here.
void MainLoop::State::finish_transfers() {
  for (const auto& transfer : dropped) curl_multi_remove_handle(multi.get(), transfer->easy());
  dropped.clear();
}

void MainLoop::State::drop(void* easy) {
  starting.erase(easy);
  const auto found = running.find(easy);
  if (found == running.end()) return;
  dropped.push_back(std::move(found->second));
  running.erase(found);
  if (!in_transfers) finish_transfers();
}

// Runs only the functions present at the start: a function that posts itself again does not starve
// others.
void MainLoop::State::run_posted() {
  auto more = posted.take();
  std::move(more.functions.begin(), more.functions.end(), std::back_inserter(taken));
  while (!taken.empty() && !quitting) {
    const auto function = std::move(taken.front());
    taken.pop_front();
    function();
  }
}

// An earlier function of this turn may have unwatched `fd`, or closed it and watched another
// descriptor with the same number. The id tells them apart.
void MainLoop::State::run_watch(int fd, std::uint64_t id) {
  auto found = watches.find(fd);
  if (found == watches.end() || found->second.id != id) return;
  // Moved out of the map, because the function may unwatch itself.
  auto then = std::move(found->second.then);
  then();
  found = watches.find(fd);
  if (found != watches.end() && found->second.id == id) found->second.then = std::move(then);
}

// Runs only the deadlines present at the start: a deadline that sets itself again waits for the
// next turn.
void MainLoop::State::run_deadlines() {
  const auto now = Clock::now();
  const auto end = next_id;
  while (!quitting) {
    auto first = deadlines.end();
    for (auto it = deadlines.begin(); it != deadlines.end(); ++it) {
      if (it->second.when > now || it->second.id >= end) continue;
      if (first == deadlines.end() || order(it->second) < order(first->second)) first = it;
    }
    if (first == deadlines.end()) return;
    const auto then = std::move(first->second.then);
    deadlines.erase(first);
    then();
  }
}

// Reads one signal at a time: the others wait in the kernel, even for a run() after quit().
void MainLoop::State::take_signal() {
  signalfd_siginfo info{};
  if (::read(signal_fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  const auto found = signal_functions.find(static_cast<int>(info.ssi_signo));
  if (found == signal_functions.end()) return;
  const auto then = found->second;  // a copy: the function may replace it
  then(static_cast<int>(info.ssi_signo));
}

MainLoop::MainLoop() : state_(std::make_unique<State>()) {}
MainLoop::~MainLoop() = default;

void MainLoop::watch(int fd, Function on_readable) {
  state_->watches[fd] = Watch{.id = state_->next_id++, .then = std::move(on_readable)};
}

void MainLoop::unwatch(int fd) {
  state_->watches.erase(fd);
}

void MainLoop::at(const std::string& name, Clock::time_point when, Function then) {
  state_->deadlines[name] =
      Deadline{.id = state_->next_id++, .when = when, .then = std::move(then)};
}

void MainLoop::cancel(const std::string& name) {
  state_->deadlines.erase(name);
}

void MainLoop::start(std::unique_ptr<Transfer> transfer) {
  void* const easy = transfer->easy();
  state_->starting[easy] = std::move(transfer);
}

void MainLoop::drop(Transfer& transfer) {
  state_->drop(transfer.easy());
}

void MainLoop::on_signals(const std::vector<int>& signals, const std::function<void(int)>& then) {
  auto mask = state_->signal_mask;
  for (const int signal : signals) sigaddset(&mask, signal);
  // Block the signals first: a signal that arrives in between then waits for the descriptor.
  if (const int error = pthread_sigmask(SIG_BLOCK, &mask, nullptr); error != 0) {
    errno = error;
    throw system_error("signals cannot be blocked");
  }
  const int fd = signalfd(state_->signal_fd, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) throw system_error("signals cannot be watched");
  if (state_->signal_fd < 0) watch(fd, [state = state_.get()] { state->take_signal(); });
  state_->signal_fd = fd;
  state_->signal_mask = mask;
  for (const int signal : signals) state_->signal_functions[signal] = then;
}

void MainLoop::post(Function function) {
  Posted one;
  one.functions.push_back(std::move(function));
  state_->posted.put(std::move(one));
  curl_multi_wakeup(state_->multi.get());
}

void MainLoop::run() {
  while (!state_->quitting) state_->turn();
  state_->quitting = false;
}

void MainLoop::quit() {
  state_->quitting = true;
  curl_multi_wakeup(state_->multi.get());
}

}  // namespace ipvsproxier::loop

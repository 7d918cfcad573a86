#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/ipvs_proxier/service_manager.h"
#include "netlink/unique_fd.h"
#include "test/fakes/manual_timers.h"
#include "test/support/temp_dir.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::cmd {
namespace {

using namespace std::chrono_literals;
using netlink::Family;

// What systemd would hear.
class Listener {
 public:
  explicit Listener(const char* watchdog_usec) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto path = (folder_.path() / "notify").string();
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
    if (watchdog_usec != nullptr) ::setenv("WATCHDOG_USEC", watchdog_usec, 1);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("WATCHDOG_USEC");
  }

  std::vector<std::string> heard() {
    std::vector<std::string> all;
    std::array<char, 1024> buffer;
    for (ssize_t size = 0;
         (size = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;)
      all.emplace_back(buffer.data(), static_cast<std::size_t>(size));
    return all;
  }

 private:
  test::TempDir folder_;
  netlink::UniqueFd fd_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

struct ServiceManagerFixture {
  test::TestClock clock;
  test::ManualTimers timers;
  serve::Status status{{.sync_period = 30s}, clock.clock()};

  void sync(bool complete) {
    status.sync_loop_started(Family::ipv4);
    status.sync_began(Family::ipv4);
    if (complete)
      status.sync_succeeded(Family::ipv4);
    else
      status.sync_failed(Family::ipv4);
  }
  void pass(std::chrono::seconds time) {
    clock.advance(time);
    timers.advance(time);
  }
};

using Heard = std::vector<std::string>;

TEST_CASE_METHOD(ServiceManagerFixture, "systemd hears once that the first sync is complete") {
  Listener systemd(nullptr);
  std::optional<ServiceManager> manager(std::in_place, timers, status);
  CHECK(systemd.heard() == Heard{"STATUS=the first sync is not complete"});
  sync(false);
  pass(2s);
  CHECK(systemd.heard().empty());
  sync(true);
  pass(1s);
  CHECK(systemd.heard() == Heard{"READY=1\nSTATUS=the kernel is in step with the cluster"});
  sync(true);
  pass(20s);
  CHECK(systemd.heard().empty());
  manager.reset();
  CHECK(systemd.heard() == Heard{"STOPPING=1\nSTATUS=ending; the kernel stays as it is"});
  CHECK(timers.count() == 0);
}

TEST_CASE_METHOD(ServiceManagerFixture,
                 "systemd hears when the kernel falls behind, and is right again") {
  Listener systemd(nullptr);
  const ServiceManager manager(timers, status);
  sync(true);
  pass(1s);
  systemd.heard();
  status.sync_requested(Family::ipv4);
  pass(70s);
  CHECK(systemd.heard() == Heard{"STATUS=the kernel is behind the cluster; see the log"});
  sync(true);
  pass(10s);
  CHECK(systemd.heard() == Heard{"STATUS=the kernel is in step with the cluster"});
}

TEST_CASE_METHOD(ServiceManagerFixture,
                 "the watchdog is fed in half its time, by live threads alone") {
  Listener systemd("4000000");
  const ServiceManager manager(timers, status);
  sync(true);
  status.sync_heartbeat().beat();
  systemd.heard();
  pass(2s);
  const auto fed = systemd.heard();
  CHECK_FALSE(fed.empty());
  for (const auto& news : fed) CHECK_THAT(news, Catch::Contains("WATCHDOG=1"));
  pass(8s);
  CHECK(systemd.heard() == Heard(4, "WATCHDOG=1\n"));

  // It began something and has not ended it since.
  pass(60s);
  systemd.heard();
  pass(8s);
  CHECK(systemd.heard().empty());
  status.sync_heartbeat().beat();
  pass(2s);
  CHECK(systemd.heard() == Heard{"WATCHDOG=1\nSTATUS=the kernel is in step with the cluster"});
}

TEST_CASE_METHOD(ServiceManagerFixture, "without systemd nobody is told") {
  Listener elsewhere(nullptr);
  ::unsetenv("NOTIFY_SOCKET");
  {
    const ServiceManager manager(timers, status);
    sync(true);
    pass(5s);
  }
  CHECK(elsewhere.heard().empty());
}

}  // namespace
}  // namespace ipvsproxier::cmd

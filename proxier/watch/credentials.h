#pragma once

// Credentials: what the next request to the API server uses. The main thread's.
//
// Files are read when they are needed, at most once a minute as client-go does, and after a 401.
// One that cannot be read any more, or that makes no sense (a certificate whose key is not there
// yet), costs a warning; what was read before stays in use. An exec plugin runs as a child process,
// one at a time, and what it printed is used until it expires or a 401 comes.
//
// How a request uses it:
//
//   if (auto access = credentials.current()) start(*access);          // a value or an error
//   else wait_ = credentials.when_known([this](const auto& access) { start(access); });
//   ... 401 came:   credentials.reread(access_that_was_used);         // then current() as above
//
// An error is a reason to back off; asking again later tries again.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <spdlog/logger.h>

#include "netlink/result.h"
#include "proxier/loop/main_loop.h"
#include "proxier/watch/cluster_access.h"

namespace ipvsproxier::watch {

// How often a file is looked at again, and for how long a plugin that failed is left alone.
inline constexpr std::chrono::seconds kCredentialFileAge{60};
inline constexpr std::chrono::seconds kPluginRest{1};

struct CredentialsClock {
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
  // Expiry is written as time of day.
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
};

class Credentials {
 public:
  using Answer = netlink::Result<ClusterAccess>;
  using Then = std::function<void(const Answer&)>;

  // Waits until destroyed. Must not outlive the Credentials.
  class Wait {
   public:
    Wait() = default;
    Wait(Wait&& other) noexcept;
    Wait& operator=(Wait&& other) noexcept;
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait();

   private:
    friend class Credentials;
    Wait(Credentials& owner, unsigned long id) : owner_(&owner), id_(id) {}

    Credentials* owner_ = nullptr;
    unsigned long id_ = 0;
  };

  // Reads nothing yet. The loop and the logger outlive it; its deadlines are named "credentials
  // ...".
  Credentials(loop::MainLoop& loop, AccessSource source, spdlog::logger& log,
              CredentialsClock clock = {});
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;
  ~Credentials();  // kills a plugin that runs; no waiter is called

  // What a request that starts now uses; reads files. Nothing: the plugin must be asked first,
  // which this has begun.
  std::optional<Answer> current();

  // Calls `then` once, from the loop and never from inside this call, when there is an answer.
  [[nodiscard]] Wait when_known(Then then);

  // The server did not accept `refused` (401). Unless there is something newer already, the next
  // current() reads the files again, or asks the plugin again.
  void reread(const ClusterAccess& refused);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::watch

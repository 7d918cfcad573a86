#pragma once

// Credentials: the access values for the next request to the API server. Main thread only.
//
// Files are read when needed, at most once a minute (as in client-go), and after a 401. A file that
// becomes unreadable or invalid (a certificate whose key is not there yet) causes a warning, and
// its last good contents stay in use. An exec plugin runs as a child process, one at a time; its
// output is used until it expires or a 401 comes.
//
// A request uses it as follows:
//
//   if (auto access = credentials.current()) start(*access);          // a value or an error
//   else wait_ = credentials.when_known([this](const auto& access) { start(access); });
//   ... 401 came:   credentials.reread(access_that_was_used);         // then current() as above
//
// After an error the caller should back off; the next call tries again.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <spdlog/logger.h>

#include "netlink/result.h"
#include "proxier/access/cluster_access.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::access {

// How often a file is checked again, and the pause after a failed plugin.
inline constexpr std::chrono::seconds kCredentialFileAge{60};
inline constexpr std::chrono::seconds kPluginRest{1};

struct CredentialsClock {
  std::function<std::chrono::steady_clock::time_point()> steady = std::chrono::steady_clock::now;
  // For expiry times, which are wall-clock times.
  std::function<std::chrono::system_clock::time_point()> wall = std::chrono::system_clock::now;
};

class Credentials {
 public:
  using Answer = netlink::Result<ClusterAccess>;
  using Then = std::function<void(const Answer&)>;

  // Cancels the wait when destroyed. Must not outlive the Credentials.
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

  // Reads nothing yet. The loop and the logger must outlive it; its deadlines are named
  // "credentials ...".
  Credentials(loop::MainLoop& loop, AccessSource source, spdlog::logger& log,
              CredentialsClock clock = {});
  Credentials(const Credentials&) = delete;
  Credentials& operator=(const Credentials&) = delete;
  ~Credentials();  // kills a running plugin; waiters are not called

  // The values for a request that starts now; reads files. nullopt: the plugin must run first, and
  // this call has started it.
  std::optional<Answer> current();

  // Calls `then` once with the answer, from the loop, never from inside this call.
  [[nodiscard]] Wait when_known(Then then);

  // The server rejected `refused` (401). Unless newer values exist already, the next current()
  // reads the files again, or runs the plugin again.
  void reread(const ClusterAccess& refused);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::access

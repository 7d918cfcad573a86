#pragma once

// Body: what is still to be sent of one answer, in the pieces and at the pace that the faults ask
// for. Used by the thread of its connection alone.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "test/support/api_server/answers.h"
#include "test/support/api_server/state.h"

namespace ipvsproxier::test {

class Body {
 public:
  static constexpr ssize_t kEnd = -1;
  static constexpr ssize_t kBroken = -2;

  Body(ServerState& state, std::optional<Resource> resource, int socket, Answer& answer);
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body();

  // Waits until there is something for the client; kBroken: close the connection.
  ssize_t read(char* out, std::size_t size);

 private:
  using Clock = RunningWatch::Clock;

  // Bytes that may go now; nothing: not yet.
  std::optional<ssize_t> step(char* out, std::size_t size)
      IPVSPROXIER_THREADS(requires_capability(state_.mutex));
  std::size_t waiting() const;

  ServerState& state_;
  std::optional<Resource> resource_;
  int socket_;
  std::string text_;
  std::unique_ptr<RunningWatch> watch_;
  std::size_t sent_ = 0;
  Clock::time_point next_byte_{};
};

// Whether the peer has closed or reset this connection.
bool peer_is_gone(int socket);

// Waits while the faults of `resource` forbid any answer; false: close the connection.
bool wait_while_silent(ServerState& state, std::optional<Resource> resource, int socket);

}  // namespace ipvsproxier::test

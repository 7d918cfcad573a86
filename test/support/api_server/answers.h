#pragma once

// From a request to its answer: what kube-apiserver would do, unless a fault says otherwise.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/support/api_server/running_watch.h"
#include "test/support/api_server/state.h"

namespace ipvsproxier::test {

struct Answer {
  int code = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::unique_ptr<RunningWatch> watch;  // then its lines are the body
};

// What a request is about, by its path.
struct Target {
  std::optional<Resource> resource;
  std::string name;        // of one object
  std::string name_space;  // "": all
  bool events = false;     // events.k8s.io
};

Target target_of(const std::string& path);
bool asks_for_watch(const LoggedRequest& request);

// `certificate_name`: of a client certificate that was verified.
std::string credential_of(const LoggedRequest& request,
                          const std::optional<std::string>& certificate_name);

// May wait a little (for a version of the future), without holding the lock.
Answer answer(ServerState& state, const LoggedRequest& request);

}  // namespace ipvsproxier::test

#pragma once

// EventStore: the Events (events.k8s.io/v1) of the test API server: takes what kube-apiserver 1.36
// takes and refuses what it refuses (its validation of events), and members that it would only warn
// of. No lock: the server guards it.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace ipvsproxier::test {

class EventStore {
 public:
  struct Outcome {
    int code = 0;
    std::string reason;   // of a failure
    std::string message;  // of a failure
    std::string body;     // the Event as it is now
  };
  struct Sent {
    std::string method;
    std::string path;  // /apis/events.k8s.io/v1/namespaces/NAMESPACE/events[/NAME]
    std::string content_type;
    std::string body;
  };

  Outcome take(const Sent& request);

  // As they are now, in the order in which they were posted.
  std::vector<std::string> documents() const;

 private:
  using Json = nlohmann::ordered_json;
  using Kept = std::pair<std::string, Json>;  // path and document

  Outcome post(const Sent& request, const std::string& name_space);
  Outcome patch(const Sent& request);
  Outcome keep(Kept& kept, Json event, int code);
  Kept* find(const std::string& path);

  std::vector<Kept> kept_;
  std::uint64_t version_ = 0;
};

}  // namespace ipvsproxier::test

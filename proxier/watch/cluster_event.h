#pragma once

// ClusterEvent: an event for the people who operate the cluster, and its conversion to an Event of
// events.k8s.io/v1 that kube-apiserver accepts. Pure.

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ipvsproxier::watch {

// The object of an Event: of the core group, v1. Its uid is not known.
struct ObjectReference {
  std::string kind;  // "Node"
  std::string ns;    // "" for an object without namespace
  std::string name;

  friend auto operator<=>(const ObjectReference&, const ObjectReference&) = default;
};

enum class EventLevel : std::uint8_t { normal, warning };

struct ClusterEvent {
  ObjectReference regarding;
  EventLevel level = EventLevel::normal;
  std::string reason;  // the reason of the event: "Starting"
  std::string action;  // the reported action: "StartKubeProxy"
  std::string note;    // text for people; may be empty

  friend auto operator<=>(const ClusterEvent&, const ClusterEvent&) = default;
};

// An Event as the server stores it.
struct EventRecord {
  using Time = std::chrono::system_clock::time_point;

  ClusterEvent event;
  std::string host;  // the reporting host
  std::string name;
  Time first;
  Time last;                // when it was last seen
  std::uint32_t count = 1;  // number of occurrences; from 2 on a series
};

// The Event's namespace: its object's, or "default".
std::string namespace_of(const ClusterEvent& event);

// The object's name and the time; a random UUID if that is not a valid name for an Event. `random`
// returns numbers in [0, 1).
std::string event_name(const ObjectReference& regarding, EventRecord::Time now,
                       const std::function<double()>& random);

// The whole Event as JSON. Texts beyond the server's limits are cut; invalid UTF-8 is replaced.
std::string event_document(const EventRecord& record);
// The patch for an existing Event: its series. A strategic merge patch, as client-go sends.
std::string series_patch(const EventRecord& record);
inline constexpr std::string_view kSeriesPatchType = "application/strategic-merge-patch+json";

}  // namespace ipvsproxier::watch

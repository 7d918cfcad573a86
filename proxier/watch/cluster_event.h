#pragma once

// ClusterEvent: something that people who look at the cluster should know; and how it becomes an
// Event of events.k8s.io/v1 that kube-apiserver accepts. Pure.

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ipvsproxier::watch {

// What an Event is about: an object of the core group, v1. We do not know its uid.
struct ObjectReference {
  std::string kind;  // "Node"
  std::string ns;    // "" for one without
  std::string name;

  friend auto operator<=>(const ObjectReference&, const ObjectReference&) = default;
};

enum class EventLevel : std::uint8_t { normal, warning };

struct ClusterEvent {
  ObjectReference regarding;
  EventLevel level = EventLevel::normal;
  std::string reason;  // why it is told: "Starting"
  std::string action;  // what was done: "StartKubeProxy"
  std::string note;    // for people; may be empty

  friend auto operator<=>(const ClusterEvent&, const ClusterEvent&) = default;
};

// One Event as the server keeps it.
struct EventRecord {
  using Time = std::chrono::system_clock::time_point;

  ClusterEvent event;
  std::string host;  // of whom it comes from
  std::string name;
  Time first;
  Time last;                // the last time that it was seen
  std::uint32_t count = 1;  // so many times; from 2 on it is a series
};

// Where it is: its object's namespace, or "default".
std::string namespace_of(const ClusterEvent& event);

// The object's name and the time. Where that is no name for an Event, a random UUID; `random`
// answers numbers in [0, 1).
std::string event_name(const ObjectReference& regarding, EventRecord::Time now,
                       const std::function<double()>& random);

// The whole Event. What is longer than the server takes is cut, and what is no UTF-8 replaced.
std::string event_document(const EventRecord& record);
// What to change where it is known: its series. A strategic merge patch, as client-go's.
std::string series_patch(const EventRecord& record);
inline constexpr std::string_view kSeriesPatchType = "application/strategic-merge-patch+json";

}  // namespace ipvsproxier::watch

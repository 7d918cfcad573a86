#pragma once

// Documents of the API's wire (events of a watch, items and envelopes of lists, Status) -> values.
// What is not kept (managedFields, annotations, selectors) is dropped while decoding.
// Pure; any thread; never throws on account of its input and keeps nothing from call to call.
//
// A document that is no JSON, or JSON without what makes an event, a list or a Status of it, is
// an Error of kind `malformed`: the connection that brought it cannot be trusted any further. An
// object that does not decode is an event or item without object, and problems say why. Origins of
// problems and objects are "".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"
#include "proxier/api/names.h"
#include "proxier/api/object_kind.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

// metav1.Status: what the server says when it does not do what was asked.
struct ApiStatus {
  int code = 0;         // as in HTTP; 0: not said
  std::string reason;   // "Expired", "Timeout"
  std::string message;  // for people
  std::optional<int> retry_after_seconds;

  friend auto operator<=>(const ApiStatus&, const ApiStatus&) = default;
};

enum class EventType : std::uint8_t { added, modified, deleted, bookmark, error };

std::string_view to_string(EventType type);  // "ADDED"

struct WatchEvent {
  EventType type = EventType::error;
  // Absent with bookmark and error, and for an object that does not decode or that no proxy serves
  // (a slice of names).
  std::optional<Object> object;
  NamespacedName name;           // of the object as far as it can be read; a Node has no namespace
  std::string resource_version;  // of the object or the bookmark
  bool initial_events_end = false;  // the bookmark that ends the initial events of a watch
  ApiStatus status;                 // with error
  Problems problems;

  friend bool operator==(const WatchEvent&, const WatchEvent&) = default;
};

netlink::Result<WatchEvent> decode_watch_event(std::string_view document, ObjectKind kind);

struct ListItem {
  std::optional<Object> object;  // absent as in WatchEvent
  NamespacedName name;
  Problems problems;

  friend bool operator==(const ListItem&, const ListItem&) = default;
};

// Items of a list need not say their kind and apiVersion: the list has said it.
netlink::Result<ListItem> decode_list_item(std::string_view document, ObjectKind kind);

// A list without its items.
struct ListEnvelope {
  std::string resource_version;
  std::string continue_token;  // "": this was the last page

  friend auto operator<=>(const ListEnvelope&, const ListEnvelope&) = default;
};

// Refuses what is no list of that kind.
netlink::Result<ListEnvelope> decode_list_envelope(std::string_view document, ObjectKind kind);

// The body of an answer that is no success. Bodies may come from a proxy on the way, so anything
// else than a Status has reason "" and its beginning as message; code and retry_after_seconds are
// then unknown.
ApiStatus decode_status(std::string_view document);

}  // namespace ipvsproxier::api

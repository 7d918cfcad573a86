#pragma once

// Documents of the API's wire (events of a watch, items and envelopes of lists, Status) -> values.
// What is not kept (managedFields, annotations, selectors) is dropped while decoding.
// Pure; any thread; never throws on account of its input and keeps nothing from call to call.
//
// Objects are what others wrote: one that cannot be read costs itself alone. What an API server
// takes and the reader refuses is mended (broken_json.h): levels beyond any that matter, text that
// is no UTF-8. An object that still is no JSON, or does not decode, is an event or item without
// object, with as much of its name as can be told, and problems say why. What is no event of an
// object, no list or no Status is an Error of kind `malformed`: the connection that brought it
// cannot be trusted any further. Origins of problems and objects are "".

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
// Of one that cannot be read, for the reason `why` ("is larger than 5 bytes"): what its beginning
// tells. An error unless that is whether an object was added, modified or deleted.
netlink::Result<WatchEvent> outline_watch_event(std::string_view beginning, ObjectKind kind,
                                                const std::string& why);

struct ListItem {
  std::optional<Object> object;  // absent as in WatchEvent
  NamespacedName name;
  Problems problems;

  friend bool operator==(const ListItem&, const ListItem&) = default;
};

// Items of a list need not say their kind and apiVersion: the list has said it.
ListItem decode_list_item(std::string_view document, ObjectKind kind);
// As outline_watch_event().
ListItem outline_list_item(std::string_view beginning, ObjectKind kind, const std::string& why);

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

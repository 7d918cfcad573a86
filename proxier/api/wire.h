#pragma once

// Decodes documents of the API: watch events, list items and envelopes, Status. Unused fields
// (managedFields, annotations, selectors) are dropped while decoding. Pure; any thread; never
// throws because of its input; keeps no state between calls.
//
// An unreadable object affects only itself. Text that an API server accepts and the reader refuses
// is repaired (broken_json.h): excessive nesting, invalid UTF-8. An object that still is no JSON or
// does not decode gives an event or item without object, with the part of its name that can be
// found, and problems with the reason. A document that is no event of an object, no list or no
// Status is an Error of kind `malformed`: its connection cannot be trusted any further. The origin
// of problems and objects is "".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"
#include "proxier/api/names.h"
#include "proxier/api/objects.h"
#include "proxier/api/problem.h"

namespace ipvsproxier::api {

// metav1.Status: the server's error answer.
struct ApiStatus {
  int code = 0;         // as in HTTP; 0: absent
  std::string reason;   // "Expired", "Timeout"
  std::string message;  // for people
  std::optional<int> retry_after_seconds;

  friend auto operator<=>(const ApiStatus&, const ApiStatus&) = default;
};

enum class EventType : std::uint8_t { added, modified, deleted, bookmark, error };

std::string_view to_string(EventType type);  // "ADDED"

struct WatchEvent {
  EventType type = EventType::error;
  // Absent for bookmark and error, for an object that does not decode, and for one that no proxy
  // serves (a slice of addressType FQDN).
  std::optional<Object> object;
  NamespacedName name;              // as far as it can be read; a Node has no namespace
  std::string resource_version;     // of the object or the bookmark
  bool initial_events_end = false;  // the bookmark that ends the initial events of a watch
  ApiStatus status;                 // with error
  Problems problems;

  friend bool operator==(const WatchEvent&, const WatchEvent&) = default;
};

netlink::Result<WatchEvent> decode_watch_event(std::string_view document, ObjectKind kind);
// The event of an object that cannot be read; `why` is the reason ("is larger than 5 bytes"). Uses
// the beginning of the text; an error if that does not tell whether the object was added, modified
// or deleted.
netlink::Result<WatchEvent> outline_watch_event(std::string_view beginning, ObjectKind kind,
                                                const std::string& why);

struct ListItem {
  std::optional<Object> object;  // absent as in WatchEvent
  NamespacedName name;
  Problems problems;

  friend bool operator==(const ListItem&, const ListItem&) = default;
};

// Items of a list need no kind and apiVersion of their own: they follow from the list.
ListItem decode_list_item(std::string_view document, ObjectKind kind);
// Like outline_watch_event(), for an item.
ListItem outline_list_item(std::string_view beginning, ObjectKind kind, const std::string& why);

// A list without its items.
struct ListEnvelope {
  std::string resource_version;
  std::string continue_token;  // "": this was the last page
  bool is_empty = false;       // the page has no item

  friend auto operator<=>(const ListEnvelope&, const ListEnvelope&) = default;
};

// An error for anything that is no list of this kind.
netlink::Result<ListEnvelope> decode_list_envelope(std::string_view document, ObjectKind kind);

// Decodes the body of an unsuccessful answer. A proxy on the way may have written it: if it is no
// Status, the reason is "", the message is the beginning of the body, and code and
// retry_after_seconds are unknown.
ApiStatus decode_status(std::string_view document);

}  // namespace ipvsproxier::api

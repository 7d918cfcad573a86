#include "proxier/watch/cluster_event.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "proxier/api/document_writer.h"
#include "proxier/api/timestamp.h"
#include "proxier/api/visible_text.h"

namespace ipvsproxier::watch {

namespace {

// Limits in bytes (kubernetes, pkg/apis/core/validation/events.go).
constexpr std::size_t kMostNote = 1024;
constexpr std::size_t kMostInstance = 128;
constexpr std::size_t kMostName = 253;

constexpr const char* kController = "kube-proxy";

// One line of valid UTF-8 within the server's limit.
std::string fit(std::string_view text, std::size_t most) {
  return std::string(api::head_of(api::visible(text), most));
}

bool is_alphanumeric(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

// RFC 1123 subdomain in lower case: a valid object name.
bool is_dns_subdomain(std::string_view name) {
  if (name.empty() || name.size() > kMostName) return false;
  char before = '.';
  for (const char letter : name) {
    const bool joins = letter == '.' || letter == '-';
    if (!joins && !is_alphanumeric(letter)) return false;
    // A label neither begins nor ends with "-".
    if ((letter == '.' && !is_alphanumeric(before)) || (letter == '-' && before == '.'))
      return false;
    before = letter;
  }
  return is_alphanumeric(before);
}

// A UUID of version 4: 122 random bits.
std::string random_uuid(const std::function<double()>& random) {
  std::string uuid = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  for (auto& letter : uuid) {
    if (letter != 'x' && letter != 'y') continue;
    const auto digit = static_cast<unsigned>(random() * 16) & 0xfU;
    letter = "0123456789abcdef"[letter == 'x' ? digit : (digit & 0x3U) | 0x8U];
  }
  return uuid;
}

void write_series(api::DocumentWriter& out, const EventRecord& record) {
  out.object("series", [&] {
    out.member("count", record.count);
    out.member("lastObservedTime", api::to_rfc3339_micro(record.last));
  });
}

void write_regarding(api::DocumentWriter& out, const ObjectReference& regarding) {
  out.object("regarding", [&] {
    out.member("kind", regarding.kind);
    if (!regarding.ns.empty()) out.member("namespace", regarding.ns);
    out.member("name", regarding.name);
    out.member("apiVersion", "v1");
  });
}

}  // namespace

std::string namespace_of(const ClusterEvent& event) {
  return event.regarding.ns.empty() ? "default" : event.regarding.ns;
}

std::string event_name(const ObjectReference& regarding, EventRecord::Time now,
                       const std::function<double()>& random) {
  const auto since = std::chrono::nanoseconds(now.time_since_epoch()).count();
  auto name = fmt::format("{}.{:x}", regarding.name, since);
  return is_dns_subdomain(name) ? name : random_uuid(random);
}

std::string event_document(const EventRecord& record) {
  const auto& event = record.event;
  api::JsonWriter out;
  out.object([&] {
    out.member("kind", "Event");
    out.member("apiVersion", "events.k8s.io/v1");
    out.object("metadata", [&] {
      out.member("name", record.name);
      out.member("namespace", namespace_of(event));
    });
    out.member("eventTime", api::to_rfc3339_micro(record.first));
    if (record.count > 1) write_series(out, record);
    out.member("reportingController", kController);
    out.member("reportingInstance",
               fit(fmt::format("{}-{}", kController, record.host), kMostInstance));
    out.member("action", event.action);
    out.member("reason", event.reason);
    write_regarding(out, event.regarding);
    if (!event.note.empty()) out.member("note", fit(event.note, kMostNote));
    out.member("type", event.level == EventLevel::normal ? "Normal" : "Warning");
  });
  return out.take();
}

std::string series_patch(const EventRecord& record) {
  api::JsonWriter out;
  out.object([&] { write_series(out, record); });
  return out.take();
}

}  // namespace ipvsproxier::watch

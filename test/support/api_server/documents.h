#pragma once

// The documents that a server sends, as text: each ends as kube-apiserver ends it, with a newline.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"
#include "test/support/api_server/faults.h"
#include "test/support/api_server/store.h"

namespace ipvsproxier::test {

// A Status with members beyond the usual ones given as JSON ("details" or empty).
struct StatusParts {
  int code = 500;
  std::string reason;
  std::string message;
  std::string details;         // JSON of an object; empty: none
  std::string continue_token;  // in its metadata
};

std::string status_document(const StatusParts& parts);
std::string fault_document(const FaultAnswer& answer);
// As kube-apiserver gives for a code that no part of it explains.
std::string reason_of_code(int code);

// kind and apiVersion before what a list shows of an object.
std::string whole_object(const ResourceFacts& facts, const StoredObject& object);

std::string event_line(ChangeType type, const ResourceFacts& facts, const StoredObject& object);
std::string bookmark_line(const ResourceFacts& facts, std::uint64_t version, bool initial_end);
std::string error_line(const std::string& status);  // status as of status_document()

// Everything of a list up to its first item.
std::string list_head(const ResourceFacts& facts, std::uint64_t version,
                      const std::string& continue_token, std::optional<std::size_t> remaining);

// Where a paged list goes on. A token names the version of the first page and the next key; that
// version is 0 in one which a server hands out with an expired one: go on with what is there now.
struct Continuation {
  std::uint64_t version = 0;
  Store::Key start;
};

std::string encode_continue(const Continuation& at);
netlink::Result<Continuation> decode_continue(std::string_view token);

std::string json_text(std::string_view text);  // as a JSON string

}  // namespace ipvsproxier::test

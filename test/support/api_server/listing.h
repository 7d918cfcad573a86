#pragma once

// Lists and the start of watches: the options of a request, what a server refuses of them, and
// pages.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "netlink/result.h"
#include "test/support/api_server/answers.h"
#include "test/support/api_server/documents.h"

namespace ipvsproxier::test {

struct Listing {
  Resource resource = Resource::services;
  std::string name_space;
  Selector labels;
  Selector fields;
  bool watch = false;
  bool bookmarks = false;
  bool initial_events_given = false;
  bool initial_events = false;
  bool counted = false;  // has no selectors: then a page says how many items remain
  std::string version_text;
  std::uint64_t version = 0;  // of version_text; 0 if that is empty
  bool version_wrong = false;
  std::string match;
  std::string continue_token;
  std::size_t limit = 0;
  std::optional<std::chrono::milliseconds> timeout;

  bool exact() const { return match == "Exact"; }
  bool waits_for_version() const;
};

// An error for a selector that a server would not understand either.
netlink::Result<Listing> listing_of(const LoggedRequest& request, const Target& target);

// The Status for options that are no number, contradict each other, or that this server is too old
// for.
std::optional<StatusParts> refuse_version(const Listing& listing, const ServerOptions& options);
StatusParts too_large_version(std::uint64_t wanted, std::uint64_t current);

std::unique_ptr<RunningWatch> start_watch(const Listing& listing, const Store& store,
                                          const ServerOptions& options);

struct Listed {
  std::string body;
  int code = 200;
  std::string failure;  // a Status, instead of the body
};

Listed list(const Listing& listing, const Store& store);

}  // namespace ipvsproxier::test

#pragma once

// The path and query of a reflector's request. Pure.

#include <chrono>
#include <string>

#include "proxier/api/object_kind.h"
#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {

struct Resource {
  std::string name;  // "services", for messages
  api::ObjectKind kind = api::ObjectKind::service;
  std::string path;  // "/api/v1/services"
  // For the query, encoded: "fieldSelector=metadata.name%3Dn1"; may be empty.
  std::string selector;
};

struct Asked {
  Step step = Step::streaming_list;
  std::string version;         // of a watch
  std::string continue_token;  // of a later page
  std::chrono::seconds time_limit{0};
};

std::string target_of(const Resource& resource, const Asked& asked);

}  // namespace ipvsproxier::watch

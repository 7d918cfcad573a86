#pragma once

// The daemon's answer to /v1/service (control.h).

#include <string>

#include "proxier/api/names.h"
#include "proxier/sync/question.h"

namespace ipvsproxier::cmd {

// inspect::service_document(), and
//   "draining": [{"service","server","forMilliseconds","leftMilliseconds"},...]
//   "refused": the kernel's refusals of this Service's entries, in words
//   "lastChange": {"when","tookMilliseconds"}, or null if it is no longer known
// Sync thread only.
std::string service_answer(const sync::Inspection& inspection, const api::NamespacedName& name);

}  // namespace ipvsproxier::cmd

#pragma once

// What the daemon answers on /v1/service (control.h).

#include <string>

#include "proxier/api/names.h"
#include "proxier/sync/question.h"

namespace ipvsproxier::cmd {

// inspect::service_document(), and
//   "draining": [{"service","server","forMilliseconds","leftMilliseconds"},...]
//   "refused": what the kernel refuses of it, in words
//   "lastChange": {"when","tookMilliseconds"}, or null where it is not known any more
// The sync thread's.
std::string service_answer(const sync::Inspection& inspection, const api::NamespacedName& name);

}  // namespace ipvsproxier::cmd

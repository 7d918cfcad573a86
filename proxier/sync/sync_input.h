#pragma once

// SyncInput: what happened since the sync thread last looked. Merged in a mailbox while it is busy.

#include <utility>

#include "netlink/link_types.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::sync {

struct SyncInput {
  model::Changes changes;
  netlink::LinkEvents links;

  bool empty() const { return changes.empty() && links.empty(); }
  void merge(SyncInput later) {
    changes.merge(std::move(later.changes));
    links.merge(std::move(later.links));
  }
};

}  // namespace ipvsproxier::sync

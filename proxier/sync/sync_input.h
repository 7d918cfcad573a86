#pragma once

// SyncInput: events since the sync thread last looked, and questions to it. Merged in a mailbox
// while the thread is busy.

#include <iterator>
#include <utility>
#include <vector>

#include "netlink/links/link_types.h"
#include "proxier/model/changes.h"
#include "proxier/sync/question.h"

namespace ipvsproxier::sync {

struct SyncInput {
  model::Changes changes;
  netlink::LinkEvents links;
  std::vector<Question> questions;

  bool empty() const { return changes.empty() && links.empty() && questions.empty(); }
  // A caller is waiting for an answer.
  bool urgent() const { return !questions.empty(); }
  void merge(SyncInput later) {
    changes.merge(std::move(later.changes));
    links.merge(std::move(later.links));
    std::move(later.questions.begin(), later.questions.end(), std::back_inserter(questions));
  }
};

}  // namespace ipvsproxier::sync

#pragma once

// QuestionQueue: passes a question to the sync thread and waits for the answer. One caller at a
// time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "proxier/loop/mailbox.h"
#include "proxier/sync/sync_input.h"

namespace ipvsproxier::cmd {

class QuestionQueue {
 public:
  // `mail` is the mailbox of the sync thread. This object must outlive that thread, which may
  // answer late.
  explicit QuestionQueue(loop::Mailbox<sync::SyncInput>& mail) : mail_(mail) {}
  QuestionQueue(const QuestionQueue&) = delete;
  QuestionQueue& operator=(const QuestionQueue&) = delete;

  // nullopt: no answer within `patience` because a sync is running, or `stop` was requested.
  std::optional<std::string> ask(std::function<std::string(const sync::Inspection&)> question,
                                 std::chrono::milliseconds patience, const std::stop_token& stop);

 private:
  struct Answer {
    std::uint64_t id = 0;
    std::string text;
  };
  struct Answers {
    std::vector<Answer> all;

    bool empty() const { return all.empty(); }
    void merge(Answers later);
  };

  loop::Mailbox<sync::SyncInput>& mail_;
  loop::Mailbox<Answers> answers_;
  std::uint64_t last_ = 0;
};

}  // namespace ipvsproxier::cmd

#include "cmd/ipvs_proxier/question_queue.h"

#include <iterator>
#include <utility>

namespace ipvsproxier::cmd {

void QuestionQueue::Answers::merge(Answers later) {
  std::move(later.all.begin(), later.all.end(), std::back_inserter(all));
}

std::optional<std::string> QuestionQueue::ask(
    std::function<std::string(const sync::Inspection&)> question,
    std::chrono::milliseconds patience, const std::stop_token& stop) {
  using SteadyClock = std::chrono::steady_clock;
  const auto id = ++last_;
  sync::SyncInput input;
  input.questions.emplace_back(
      [this, id, question = std::move(question)](const sync::Inspection& inspection) {
        Answers answers;
        answers.all.push_back({id, question(inspection)});
        answers_.put(std::move(answers));
      });
  mail_.put(std::move(input));
  const auto until = SteadyClock::now() + patience;
  while (SteadyClock::now() < until && !stop.stop_requested()) {
    auto answers = answers_.take(stop, SteadyClock::time_point::min(), until);
    // Late answers to abandoned questions are dropped.
    for (auto& answer : answers.all)
      if (answer.id == id) return std::move(answer.text);
  }
  return std::nullopt;
}

}  // namespace ipvsproxier::cmd

#include "proxier/sync/sync_thread.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace ipvsproxier::sync {

namespace {

using Clock = std::chrono::steady_clock;

// Limit of one wait: not every clock can represent the end of time.
constexpr std::chrono::hours kLongest{1};

void serve(const std::stop_token& stop, Reconciler& reconciler, loop::Mailbox<SyncInput>& mailbox,
           std::chrono::nanoseconds min_period, Publisher& publisher) {
  publisher.started();
  auto earliest = Clock::now();
  bool changed = false;  // input was taken that no run has handled
  int trims = 0;
  while (!stop.stop_requested()) {
    const auto now = Clock::now();
    const auto latest = std::min(reconciler.due(), changed ? earliest : now + kLongest);
    // Work that is due does not wait for changes, and does not make changes run before their time.
    // Between two turns changes are taken, or they would wait for all turns.
    const bool taken =
        latest > now || earliest <= now || reconciler.has_turns() || mailbox.urgent();
    auto input = taken ? mailbox.take(stop, earliest, latest) : SyncInput{};
    if (stop.stop_requested()) return;
    const auto questions = std::exchange(input.questions, {});
    if (std::exchange(input.figures, false)) reconciler.read_figures();
    changed = changed || !input.empty();
    reconciler.take(std::move(input));
    const auto begun = Clock::now();
    reconciler.answer(questions, begun);
    if (!reconciler.listed()) changed = false;  // the input is kept until the lists arrive
    const bool asked = changed && begun >= earliest;
    if (!asked && begun < reconciler.due()) continue;
    publisher.began(taken);
    auto report = reconciler.run(begun, stop);
    const bool whole = report.whole;
    publisher.ended(std::move(report), Clock::now() - begun);
    // Give memory back to the system: the first lists, their plan and their writes leave much that
    // is not used again. The next run does so as well: with very many addresses notifications
    // overflow, and all addresses are listed.
    if (trims == 1 || (trims == 0 && whole)) {
      ::malloc_trim(0);
      ++trims;
    }
    if (changed) earliest = Clock::now() + std::chrono::duration_cast<Clock::duration>(min_period);
    changed = false;
  }
}

}  // namespace

SyncThread::SyncThread(Reconciler& reconciler, loop::Mailbox<SyncInput>& mailbox,
                       std::chrono::nanoseconds min_period, Publisher& publisher)
    : thread_([&reconciler, &mailbox, min_period, &publisher](const std::stop_token& stop) {
        serve(stop, reconciler, mailbox, min_period, publisher);
      }) {}

}  // namespace ipvsproxier::sync

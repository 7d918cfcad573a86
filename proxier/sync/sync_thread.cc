#include "proxier/sync/sync_thread.h"

#include <algorithm>
#include <utility>

namespace ipvsproxier::sync {

namespace {

using Clock = std::chrono::steady_clock;

// Of one wait: the end of time does not fit into every clock.
constexpr std::chrono::hours kLongest{1};

void serve(const std::stop_token& stop, Reconciler& reconciler, loop::Mailbox<SyncInput>& mailbox,
           std::chrono::nanoseconds min_period, Publisher& publisher) {
  publisher.started();
  auto earliest = Clock::now();
  while (!stop.stop_requested()) {
    const auto latest = std::min(reconciler.due(), Clock::now() + kLongest);
    // What is due does not wait for changes, nor do changes come before their time because of it.
    const bool taken = latest > Clock::now() || earliest <= Clock::now();
    auto input = taken ? mailbox.take(stop, earliest, latest) : SyncInput{};
    if (stop.stop_requested()) return;
    const bool asked = !input.empty();
    reconciler.take(std::move(input));
    if (!reconciler.listed()) continue;
    const auto begun = Clock::now();
    publisher.began(taken);
    auto report = reconciler.run(begun, stop);
    publisher.ended(std::move(report), Clock::now() - begun);
    if (asked) earliest = Clock::now() + std::chrono::duration_cast<Clock::duration>(min_period);
  }
}

}  // namespace

SyncThread::SyncThread(Reconciler& reconciler, loop::Mailbox<SyncInput>& mailbox,
                       std::chrono::nanoseconds min_period, Publisher& publisher)
    : thread_([&reconciler, &mailbox, min_period, &publisher](const std::stop_token& stop) {
        serve(stop, reconciler, mailbox, min_period, publisher);
      }) {}

}  // namespace ipvsproxier::sync

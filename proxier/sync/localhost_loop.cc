#include "proxier/sync/localhost_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proxier/plan/localhost.h"

namespace ipvsproxier::sync {

namespace {

// What is true of the kernel, and not of this one question.
bool tells_the_kernel(const netlink::Error& error) {
  using Kind = netlink::ErrorKind;
  return error.kind == Kind::already || error.kind == Kind::missing || error.kind == Kind::denied ||
         error.kind == Kind::unsupported;
}

}  // namespace

LocalhostLoop::LocalhostLoop(const plan::PlannerOptions& options, spdlog::logger& logger)
    : wanted_(options.serves_localhost()),
      spec_(plan::localhost_links(options.families)),
      logger_(logger) {}

LocalhostLoop::Kept LocalhostLoop::keep(Kernel& kernel, bool dry) {
  Kept kept;
  if (!wanted_) return kept;
  auto report = kernel.links.ensure_loop(spec_, dry);
  if (!report && !tells_the_kernel(report.error()) && made_) {
    kept.failures.push_back(
        {"keep links " + spec_.first + " and " + spec_.second, std::move(report.error())});
    kept.lacking = lacking_;
    return kept;
  }
  if (!report) {
    for (const auto& way : spec_.ways)
      kept.lacking.emplace(way.localhost.family(), netlink::to_string(report.error()));
  } else {
    for (const auto& [family, error] : report->failed)
      kept.lacking.emplace(family, netlink::to_string(error));
    kept.written = std::move(report->written);
    if (made_ && !dry && !kept.written.empty())
      logger_.warn("others removed or changed {} of node ports on localhost: made again",
                   fmt::join(kept.written, ", "));
    made_ = true;
  }
  lacking_ = kept.lacking;
  return kept;
}

std::size_t LocalhostLoop::leave(netlink::LinkTable& links, std::vector<Failure>& failures) {
  if (wanted_ || left_) return 0;
  auto gone = links.remove_loop(spec_);
  // Links of these names that are not ours are no concern of ours.
  left_ = gone.has_value() || gone.error().kind == netlink::ErrorKind::already;
  if (!left_) failures.push_back({"remove link " + spec_.first, std::move(gone.error())});
  if (!gone || !*gone) return 0;
  logger_.info("removed links {} and {}: node ports are not on localhost", spec_.first,
               spec_.second);
  return 2;
}

}  // namespace ipvsproxier::sync

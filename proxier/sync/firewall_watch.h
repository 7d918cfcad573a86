#pragma once

// FirewallWatch: tells which chains of a host's firewall drop packets of Services
// (host_firewall.h), when they come and when they are gone. Looks with each reading of the whole
// kernel, and soon after somebody changed a base chain of nf_tables. Sync thread only.

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "ipset/nft/host_firewall.h"
#include "netlink/result.h"
#include "proxier/plan/desired_state.h"
#include "proxier/sync/failed_look.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// Takes `longest` at most, for each packet filter.
using FindFirewallWarnings = std::function<netlink::Result<ipset::FirewallLook>(
    const std::vector<ipset::FirewallSample>&, std::chrono::milliseconds longest)>;

// Virtual services, each with a real server that it has: of each family no more than are judged,
// and one for each protocol and port, which a host port may have as well, unless it is a node port.
std::vector<ipset::FirewallSample> firewall_samples(const plan::DesiredState& desired);

class FirewallWatch {
 public:
  static constexpr std::chrono::milliseconds kFirstLook{100};
  static constexpr std::chrono::milliseconds kLongestLook{400};
  using Clock = std::function<TimePoint()>;

  // An empty `find`: there is nothing to find. `clock` measures how long it takes.
  FirewallWatch(FindFirewallWarnings find, spdlog::logger& logger,
                Clock clock = std::chrono::steady_clock::now)
      : find_(std::move(find)), logger_(logger), clock_(std::move(clock)) {}

  // Tables that were not judged leave what was told of them.
  void look(const plan::DesiredState& desired, TimePoint now);

  // Base chains changed, or all was read again. Looks take at most a tenth of this thread's time,
  // and whoever changes chains all the time has one a second. A look that was late is followed by
  // one that may take twice as long, up to kLongestLook.
  void hurry() { hurried_ = true; }
  std::optional<TimePoint> next() const;
  bool is_due(TimePoint now) const { return next() && now >= *next(); }

  // Of the last look: the chains that drop, without those that may.
  std::size_t drops() const { return dropping().size(); }
  std::vector<std::string> dropping() const;

 private:
  FindFirewallWarnings find_;
  spdlog::logger& logger_;
  FailedLook failed_look_{"the host's firewall", logger_};
  Clock clock_;
  std::set<ipset::FirewallWarning> told_;
  std::map<std::string, std::string> unjudged_;
  bool hurried_ = false;
  std::chrono::milliseconds longest_ = kFirstLook;
  TimePoint not_before_{};
};

}  // namespace ipvsproxier::sync

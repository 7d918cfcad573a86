#pragma once

// FirewallWatch: tells which chains of a host's firewall drop packets of Services
// (host_firewall.h), when they come and when they are gone. Looks with each reading of the whole
// kernel, and soon after somebody changed a base chain of nf_tables. Sync thread only.

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "ipset/nft/host_firewall.h"
#include "netlink/result.h"
#include "proxier/plan/desired_state.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

using FindFirewallWarnings = std::function<netlink::Result<std::vector<ipset::FirewallWarning>>(
    const std::vector<ipset::FirewallSample>&)>;

// Virtual services, each with a real server that it has: no more of a family than are judged, and
// one for each protocol and port, which a host port may have as well.
std::vector<ipset::FirewallSample> firewall_samples(const plan::DesiredState& desired);

class FirewallWatch {
 public:
  // An empty `find`: there is nothing to find.
  FirewallWatch(FindFirewallWarnings find, spdlog::logger& logger)
      : find_(std::move(find)), logger_(logger) {}

  // What cannot be read leaves everything as it was told.
  void look(const plan::DesiredState& desired, TimePoint now);

  // Base chains changed. Whoever changes them all the time costs one look a second.
  void hurry() { hurried_ = true; }
  std::optional<TimePoint> next() const;
  bool is_due(TimePoint now) const { return next() && now >= *next(); }

  // Of the last look: the chains that drop, without those that may.
  std::size_t drops() const { return dropping().size(); }
  std::vector<std::string> dropping() const;

 private:
  FindFirewallWarnings find_;
  spdlog::logger& logger_;
  std::set<ipset::FirewallWarning> told_;
  bool hurried_ = false;
  TimePoint looked_{};
};

}  // namespace ipvsproxier::sync

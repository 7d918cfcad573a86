#pragma once

// Checks whether this node's Node fits the configuration, and what happens if not. Logs. Main
// thread only.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/loop/line_limit.h"
#include "proxier/loop/timers.h"

namespace ipvsproxier::cmd {

// Logs the parts of the configuration that do not fit this node. False: kube-proxy would exit, and
// the caller must exit before programming anything. With --init-only warnings are left to the
// daemon that starts next, which knows the Node.
bool fits_node(const Options& options, const std::vector<netlink::Family>& families,
               const std::optional<api::Node>& node, spdlog::logger& logger);

// What it means that the source has no Node of this node's name, with the names that look alike
// (alike_nodes.h).
std::string no_node_text(const Options& options, const std::vector<api::Node>& others,
                         const std::set<std::string>& named);

// Whether the rules would be wrong because this node has no pod CIDRs, which recognize its pods.
// For a single run, which logs this and exits.
bool lacks_pod_cidrs(const Options& options, const std::optional<api::Node>& node,
                     spdlog::logger& logger);

// Watches spec.podCIDRs if local traffic is recognized by them (detectLocalMode NodeCIDR): waits
// for them at the start, and ends the process when they change. In other modes they are ignored.
class PodCidrs {
 public:
  // How long to wait, after the first lists, for a Node without pod CIDRs before the process ends.
  static constexpr std::chrono::minutes kLongestWait{5};

  enum class Verdict : std::uint8_t {
    good,      // program the current state
    wait,      // program nothing yet
    keep_old,  // use the last Node that had pod CIDRs
    end,       // the pod CIDRs changed: the process must restart
  };

  // `on_timeout` is called after the longest wait, which is logged. All arguments must outlive
  // this.
  PodCidrs(const Options& options, loop::Timers& timers, spdlog::logger& logger,
           std::function<void()> on_timeout);
  PodCidrs(const PodCidrs&) = delete;
  PodCidrs& operator=(const PodCidrs&) = delete;
  ~PodCidrs();

  // Judges the current Node, after the first lists. The pod CIDRs at the first `good` are those of
  // this process.
  Verdict see(const std::optional<api::Node>& node);

 private:
  void wait();

  const Options& options_;
  loop::Timers& timers_;
  spdlog::logger& logger_;
  loop::LineLimit limit_{logger_};
  std::function<void()> on_timeout_;
  std::vector<netlink::IpPrefix> used_;  // empty: not known yet
  bool waiting_ = false;
  bool lacking_ = false;  // the Node lost its pod CIDRs
};

}  // namespace ipvsproxier::cmd

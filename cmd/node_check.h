#pragma once

// What programming takes of this node's Node: what is told, and done, where it is not so. Logs. The
// main thread's.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "netlink/ip_address.h"
#include "proxier/api/objects.h"
#include "proxier/loop/timers.h"

namespace ipvsproxier::cmd {

// Tells what of the configuration does not fit this node. False: so little that kube-proxy would
// end, and so does the caller, before anything is programmed. With --init-only warnings are left to
// the daemon that is started next, which knows the Node.
bool fits_node(const Options& options, const std::vector<netlink::Family>& families,
               const std::optional<api::Node>& node, spdlog::logger& logger);

void log_no_node(const Options& options, spdlog::logger& logger);

// Whether the rules would be wrong for want of this node's pod CIDRs: pods are told by them. For a
// run without following, which tells it and ends.
bool lacks_pod_cidrs(const Options& options, const std::optional<api::Node>& node,
                     spdlog::logger& logger);

// spec.podCIDRs while they tell local traffic (detectLocalMode NodeCIDR): waited for at the start,
// and with others the process has to start again. In other modes they do not matter.
class PodCidrs {
 public:
  // How long a Node may be without them after the first lists, before anything is programmed.
  static constexpr std::chrono::minutes kLongestWait{5};

  enum class Verdict : std::uint8_t {
    good,      // program what there is
    wait,      // program nothing yet
    keep_old,  // go on with the Node as it was last seen with some
    end,       // they are others: the process must end, to begin anew with them
  };

  // `on_timeout`: the longest wait is over; it is told. `options` and the others outlive this.
  PodCidrs(const Options& options, loop::Timers& timers, spdlog::logger& logger,
           std::function<void()> on_timeout);
  PodCidrs(const PodCidrs&) = delete;
  PodCidrs& operator=(const PodCidrs&) = delete;
  ~PodCidrs();

  // The Node as it is known, once the first lists are there. Those that it has when this is `good`
  // for the first time are those of this process.
  Verdict see(const std::optional<api::Node>& node);

 private:
  void wait();

  const Options& options_;
  loop::Timers& timers_;
  spdlog::logger& logger_;
  std::function<void()> on_timeout_;
  std::vector<netlink::IpPrefix> used_;  // empty: none yet
  bool waiting_ = false;
  bool lacking_ = false;  // it had some
};

}  // namespace ipvsproxier::cmd

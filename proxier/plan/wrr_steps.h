#pragma once

// What a new connection costs under the scheduler wrr. ip_vs_wrr_schedule() (ip_vs_wrr.c, Linux
// 6.1) counts from the largest weight down by the greatest common divisor of all weights, and
// walks all real servers at each value, those of weight 0 as well, with bottom halves off, until
// it finds one that may take the connection. A real server of the largest weight may, unless it is
// full (IP_VS_DEST_F_OVERLOAD), which needs an upper threshold. So without thresholds a walk is
// short; with them it takes (largest weight / divisor) x real servers. Without a bound one Service
// could take a CPU of each node with some packets a second.
//
// Other schedulers have no such cost (ip_vs_*.c, 6.1): rr, lc, wlc, sed, nq, lblc, lblcr, fo, ovf
// and twos walk the real servers a few times at most, whatever their weights; dh looks once; sh and
// mh with their fallback look 257 and 4,094 times at most. So their weights stay as they are asked
// for: those of ovf are numbers of connections, those of fo an order.
//
// Pure; any thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "proxier/plan/actual_state.h"
#include "proxier/plan/desired_state.h"

namespace ipvsproxier::plan {

// The limit of (largest weight x real servers) of one virtual service with such walks.
inline constexpr std::size_t kMostWrrSteps = 10'000;

// The largest weight beside so many real servers. Beyond kMostWrrSteps real servers it is 1.
std::uint32_t largest_weight(std::size_t servers);

// Whether a virtual service with this scheduler and upper threshold can make the kernel walk.
bool has_wrr_walks(std::string_view scheduler, std::uint32_t upper_threshold);
inline bool has_wrr_walks(const PlannedService& planned) {
  return has_wrr_walks(planned.service.scheduler.view(), planned.upper_threshold);
}

// Weights above the limit are divided by their greatest common divisor, and if that does not
// suffice, scaled down to the nearest ratios, but those above 0 stay above 0. Returns whether the
// ratios changed.
bool limit_weights(std::vector<std::uint32_t>& weights, std::size_t servers);

// What real servers get for now, where more of them are in the kernel than are planned (those that
// drain or are to leave), or where the kernel still has wrr or thresholds that are not planned.
struct WeightsForNow {
  std::vector<std::uint32_t> weights;  // of PlannedService::servers, in their order
  std::uint32_t largest = 1;           // of any real server, also of those that are to leave

  bool differ_from(const PlannedService& planned) const;
};
// nullopt: the planned weights, and there can be no walk meanwhile.
std::optional<WeightsForNow> weights_for_now(const PlannedService& planned,
                                             const netlink::VirtualService& in_kernel,
                                             const RealServers& has);

}  // namespace ipvsproxier::plan

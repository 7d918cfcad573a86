#include "proxier/plan/wrr_steps.h"

#include <algorithm>
#include <numeric>

namespace ipvsproxier::plan {

namespace {

bool is_wrr(const netlink::VirtualService& service) {
  return service.scheduler.view() == "wrr";
}

}  // namespace

std::uint32_t largest_weight(std::size_t servers) {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(kMostWrrSteps / std::max<std::size_t>(servers, 1), 1));
}

bool has_wrr_walks(std::string_view scheduler, std::uint32_t upper_threshold) {
  return scheduler == "wrr" && upper_threshold != 0;
}

bool limit_weights(std::vector<std::uint32_t>& weights, std::size_t servers) {
  const auto top = largest_weight(servers);
  const auto largest = [&] {
    return weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
  };
  if (largest() <= top) return false;
  std::uint32_t divisor = 0;
  for (const auto weight : weights) divisor = std::gcd(divisor, weight);
  for (auto& weight : weights) weight /= divisor;
  const auto most = largest();
  if (most <= top) return false;
  for (auto& weight : weights)
    if (weight != 0)
      weight = static_cast<std::uint32_t>(
          std::max<std::uint64_t>((std::uint64_t{weight} * top + most / 2) / most, 1));
  return true;
}

bool WeightsForNow::differ_from(const PlannedService& planned) const {
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i] != planned.server(i).weight) return true;
  return false;
}

std::optional<WeightsForNow> weights_for_now(const PlannedService& planned,
                                             const netlink::VirtualService& in_kernel,
                                             const RealServers& has) {
  if (!is_wrr(planned.service) && !is_wrr(in_kernel)) return std::nullopt;
  const auto may_be_full = [](const netlink::RealServer& server) {
    return server.upper_threshold != 0 && server.weight != 0;
  };
  if (planned.upper_threshold == 0 && std::none_of(has.begin(), has.end(), may_be_full))
    return std::nullopt;
  auto together = planned.servers.size();
  for (const auto& server : has) together += planned.servers.contains(server.key) ? 0 : 1;
  WeightsForNow now{.weights = {}, .largest = largest_weight(together)};
  now.weights.reserve(planned.servers.size());
  for (std::size_t i = 0; i < planned.servers.size(); ++i)
    now.weights.push_back(planned.server(i).weight);
  limit_weights(now.weights, together);
  return now;
}

}  // namespace ipvsproxier::plan

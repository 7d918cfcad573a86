#include "proxier/sync/firewall_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

namespace ipvsproxier::sync {

namespace {

constexpr std::chrono::seconds kBetweenLooks{1};
constexpr int kShareOfLooks = 10;  // one of so many parts of the time

}  // namespace

std::vector<ipset::FirewallSample> firewall_samples(const plan::DesiredState& desired) {
  struct OfFamily {
    std::size_t count = 0;
    std::size_t seen = 0;
    std::set<std::pair<netlink::Protocol, std::uint16_t>> ports;
  };
  std::map<netlink::Family, OfFamily> families;
  for (const auto& [key, planned] : desired.services) ++families[key.address.family()].count;
  std::vector<ipset::FirewallSample> samples;
  for (const auto& [key, planned] : desired.services) {
    auto& family = families[key.address.family()];
    const auto step = family.count / ipset::kMostFirewallSamples + 1;
    if (key.fwmark != 0) continue;
    const bool is_node_port = is_of_node_port(planned.facet);
    const bool is_next = family.seen++ % step == 0;
    const bool is_new_port = !is_node_port && family.ports.size() < ipset::kMostFirewallPorts &&
                             family.ports.emplace(key.protocol, key.port).second;
    if (!is_next && !is_new_port) continue;
    ipset::FirewallSample sample{.address = key.address,
                                 .protocol = key.protocol,
                                 .port = key.port,
                                 .server = {},
                                 .is_node_port = is_node_port};
    if (planned.servers.begin() != planned.servers.end()) {
      sample.server = planned.servers.begin()->address;
      sample.server_port = planned.servers.begin()->port;
    }
    samples.push_back(sample);
  }
  return samples;
}

std::optional<TimePoint> FirewallWatch::next() const {
  if (!hurried_ || !find_) return std::nullopt;
  return not_before_;
}

std::vector<std::string> FirewallWatch::dropping() const {
  std::vector<std::string> texts;
  for (const auto& warning : told_)
    if (warning.drops) texts.push_back(warning.text);
  return texts;
}

void FirewallWatch::look(const plan::DesiredState& desired, TimePoint now) {
  if (!find_) return;
  hurried_ = false;
  const auto begin = clock_();
  auto found = find_(firewall_samples(desired), longest_);
  const auto took = clock_() - begin;
  not_before_ = now + took + std::max<TimePoint::duration>(kBetweenLooks, kShareOfLooks * took);
  if (!found) {
    failed_look_.failed(found.error());
    return;
  }
  failed_look_.succeeded();
  if (found->was_late && longest_ < kLongestLook) {
    hurried_ = true;
    longest_ = std::min(2 * longest_, kLongestLook);
  }
  std::set<ipset::FirewallWarning> now_there(found->warnings.begin(), found->warnings.end());
  const auto has = [](const auto& warnings, const ipset::FirewallWarning& warning) {
    return std::ranges::any_of(warnings, [&](const auto& other) {
      return other.drops == warning.drops && other.chain == warning.chain;
    });
  };
  for (const auto& warning : now_there)
    if (!has(told_, warning))
      logger_.log(warning.drops ? spdlog::level::warn : spdlog::level::info, "{}", warning.text);
  for (const auto& warning : told_) {
    if (has(now_there, warning)) continue;
    if (found->unjudged.contains(warning.table))
      now_there.insert(warning);
    else
      logger_.info("no longer so: {}", warning.text);
  }
  for (const auto& [table, why] : found->unjudged)
    if (!unjudged_.contains(table)) logger_.info("{}", ipset::text_of_unjudged(table, why));
  told_ = std::move(now_there);
  unjudged_ = std::move(found->unjudged);
}

}  // namespace ipvsproxier::sync

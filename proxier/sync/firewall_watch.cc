#include "proxier/sync/firewall_watch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace ipvsproxier::sync {

namespace {

constexpr std::chrono::seconds kBetweenLooks{1};
constexpr std::size_t kMostPorts = 1024;  // of both families

}  // namespace

std::vector<ipset::FirewallSample> firewall_samples(const plan::DesiredState& desired) {
  std::map<netlink::Family, std::size_t> counts;
  for (const auto& [key, planned] : desired.services) ++counts[key.address.family()];
  std::map<netlink::Family, std::size_t> seen;
  std::set<std::tuple<netlink::Family, netlink::Protocol, std::uint16_t>> ports;
  std::vector<ipset::FirewallSample> samples;
  for (const auto& [key, planned] : desired.services) {
    const auto family = key.address.family();
    const auto step = counts[family] / ipset::kMostFirewallSamples + 1;
    if (key.fwmark != 0) continue;
    const bool is_next = seen[family]++ % step == 0;
    const bool is_new_port =
        ports.size() < kMostPorts && ports.emplace(family, key.protocol, key.port).second;
    if (!is_next && !is_new_port) continue;
    ipset::FirewallSample sample{
        .address = key.address, .protocol = key.protocol, .port = key.port, .server = {}};
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
  return looked_ + kBetweenLooks;
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
  looked_ = now;
  auto found = find_(firewall_samples(desired));
  if (!found) {
    logger_.debug("a host's firewall: {}", netlink::to_string(found.error()));
    return;
  }
  std::set<ipset::FirewallWarning> now_there(found->begin(), found->end());
  const auto has = [](const auto& warnings, const ipset::FirewallWarning& warning) {
    return std::ranges::any_of(warnings, [&](const auto& other) {
      return other.drops == warning.drops && other.chain == warning.chain;
    });
  };
  for (const auto& warning : now_there)
    if (!has(told_, warning))
      logger_.log(warning.drops ? spdlog::level::warn : spdlog::level::info, "{}", warning.text);
  for (const auto& warning : told_)
    if (!has(now_there, warning)) logger_.info("no longer so: {}", warning.text);
  told_ = std::move(now_there);
}

}  // namespace ipvsproxier::sync

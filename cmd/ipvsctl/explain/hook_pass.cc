#include "cmd/ipvsctl/explain/hook_pass.h"

#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/decisions.h"
#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ctl {

using ipset::Table;
using netlink::NftHook;

namespace {

// NF_IP_PRI_* of <linux/netfilter_ipv4.h>; IPVS in ip_vs_core.c.
constexpr std::int64_t kFirst = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kRaw = -300;
constexpr std::int64_t kTracking = -200;
constexpr std::int64_t kMangle = -150;
constexpr std::int64_t kDestinationNat = -100;
constexpr std::int64_t kFilter = 0;
constexpr std::int64_t kIpvsInput = 98;
constexpr std::int64_t kSourceNat = 100;
constexpr std::int64_t kEnd = std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;

const char* name_of(NftHook hook) {
  switch (hook) {
    case NftHook::prerouting:
      return "prerouting";
    case NftHook::input:
      return "input";
    case NftHook::forward:
      return "forward";
    case NftHook::output:
      return "output";
    case NftHook::postrouting:
      return "postrouting";
  }
  return "";
}

std::int64_t our_priority(NftHook hook, std::int64_t otherwise) {
  const auto ours = ipset::hook_of(name_of(hook));
  return ours ? ours->priority : otherwise;
}

bool is_settled(const Packet& packet, ChainEnd end) {
  return packet.destination_settled || end == ChainEnd::masqueraded || end == ChainEnd::translated;
}

// "INPUT" -> "input"
std::string hook_word(std::string chain) {
  for (auto& letter : chain) letter = static_cast<char>(letter | 0x20);
  return chain;
}

bool is_lost(const ChainWalk& walk) {
  return walk.end == ChainEnd::dropped || walk.end == ChainEnd::rejected;
}

Notice notice_of(std::optional<ipset::RejectAction::Way> way) {
  if (!way) return Notice::port_unreachable;
  if (*way == ipset::RejectAction::Way::reset) return Notice::reset;
  return *way == ipset::RejectAction::Way::prohibited ? Notice::prohibited
                                                      : Notice::host_unreachable;
}

}  // namespace

void note_step(std::vector<WalkStep>& steps, std::string stage, std::string text, bool decides) {
  steps.push_back({.stage = std::move(stage), .text = std::move(text), .decides = decides});
}

void lose(std::vector<WalkStep>& steps, Arrival& arrival, const char* stage, Notice notice,
          const std::string& why) {
  note_step(steps, stage, why, true);
  arrival.fate = notice == Notice::none ? Fate::dropped : Fate::refused;
  arrival.notice = notice;
  arrival.why = fmt::format("{}: {}", stage, why);
}

bool HookPass::prerouting(OnItsWay way) {
  return enter(Hook::prerouting, "PREROUTING", way) &&
         others(Hook::prerouting, false, kMangle, kDestinationNat, way) &&
         nat(Hook::prerouting, "PREROUTING", way) &&
         others(Hook::prerouting, false, kDestinationNat, kEnd, way);
}

bool HookPass::input(OnItsWay way) {
  const auto ours = our_priority(Hook::input, kFilter);
  return others(Hook::input, false, kFirst, kMangle, way) && pass(Table::mangle, "INPUT", way) &&
         others(Hook::input, false, kMangle, ours, way) && pass(Table::kube_ipvs, "input", way) &&
         others(Hook::input, false, ours, kFilter, way) && pass(Table::filter, "INPUT", way) &&
         others(Hook::input, false, kFilter, kIpvsInput, way);
}

bool HookPass::input_rest(OnItsWay way) {
  return others(Hook::input, false, kIpvsInput, kSourceNat, way) &&
         nat(Hook::input, "INPUT", way) && others(Hook::input, false, kSourceNat, kEnd, way);
}

bool HookPass::prerouting_again(OnItsWay way) {
  return enter(Hook::prerouting, "PREROUTING", way) &&
         others(Hook::prerouting, false, kMangle, kEnd, way);
}

bool HookPass::input_again(OnItsWay way) {
  return others(Hook::input, false, kIpvsInput, kEnd, way);
}

bool HookPass::forward(OnItsWay way) {
  return others(Hook::forward, false, kFirst, kMangle, way) &&
         pass(Table::mangle, "FORWARD", way) &&
         others(Hook::forward, false, kMangle, kFilter, way) &&
         pass(Table::filter, "FORWARD", way) && others(Hook::forward, false, kFilter, kEnd, way);
}

bool HookPass::output(OnItsWay way) {
  return enter(Hook::output, "OUTPUT", way) &&
         others(Hook::output, false, kMangle, kDestinationNat, way) &&
         nat(Hook::output, "OUTPUT", way);
}

bool HookPass::output_rest(OnItsWay way) {
  return others(Hook::output, false, kDestinationNat, kFilter, way) &&
         pass(Table::filter, "OUTPUT", way) && others(Hook::output, false, kFilter, kEnd, way);
}

bool HookPass::output_of_ipvs(OnItsWay way) {
  return enter(Hook::output, "OUTPUT", way) &&
         others(Hook::output, false, kMangle, kDestinationNat, way) && output_rest(way);
}

bool HookPass::postrouting_before_nat(OnItsWay way) {
  return others(Hook::postrouting, false, kFirst, kMangle, way) &&
         pass(Table::mangle, "POSTROUTING", way) &&
         others(Hook::postrouting, false, kMangle, kSourceNat, way);
}

bool HookPass::postrouting_nat(OnItsWay way) {
  return nat(Hook::postrouting, "POSTROUTING", way);
}

bool HookPass::postrouting_rest(OnItsWay way) {
  return others(Hook::postrouting, false, kSourceNat, kEnd, way);
}

// Connection tracking comes after raw.
bool HookPass::enter(Hook hook, const char* chain, OnItsWay way) {
  if (!others(hook, false, kFirst, kRaw, way) || !pass(Table::raw, chain, way) ||
      !others(hook, false, kRaw, kTracking, way))
    return false;
  auto& packet = way.packet;
  if (packet.tracking == Tracking::not_yet) {
    packet.tracking = Tracking::tracked;
    packet.first = {packet.source, packet.source_port, packet.destination, packet.destination_port};
  }
  return others(hook, false, kTracking, kMangle, way) && pass(Table::mangle, chain, way);
}

// Untracked packets, and later ones of a connection, skip nat.
bool HookPass::nat(Hook hook, const char* chain, OnItsWay way) {
  nat_end_ = ChainEnd::accepted;
  if (way.packet.tracking == Tracking::never || way.packet.established) return true;
  const bool at_source = hook == Hook::postrouting || hook == Hook::input;
  const auto legacy = at_source ? kSourceNat : kDestinationNat;
  const auto ours = our_priority(hook, legacy);
  const bool is_ours = hook != Hook::input;
  if (at_source) way.packet.destination_settled = false;
  const auto settled = [&] { return is_settled(way.packet, nat_end_); };
  if (!others(hook, true, kFirst, ours, way)) return false;
  if (!settled() && is_ours && !pass(Table::kube_ipvs, name_of(hook), way)) return false;
  if (!settled() && !others(hook, true, ours, legacy, way)) return false;
  if (!settled() && !pass(Table::nat, chain, way)) return false;
  return settled() || others(hook, true, legacy, kEnd, way);
}

bool HookPass::pass(Table table, const char* chain, OnItsWay way) {
  const auto key = plan::TableKey{way.packet.destination.family(), table};
  const auto before = way.packet;
  auto result = walk_chain(node_, key, chain, way.packet, is_local_);
  doubt_end(table, chain, result, before, way);
  return take(std::move(result), fmt::format("{} {}", to_string(table), chain), way);
}

bool HookPass::others(Hook hook, bool in_nat, std::int64_t first, std::int64_t end, OnItsWay way) {
  for (const auto& one : node_.nft_chains) {
    const auto& base = one.base;
    const bool is_nat = base.type == "nat";
    if (base.hook != hook || is_nat != in_nat || base.priority < first || base.priority >= end)
      continue;
    if (is_nat && is_settled(way.packet, nat_end_)) return true;
    auto result = walk_nft_chain(node_, one.table, one.chain, way.packet, is_local_);
    if (result.end == ChainEnd::masqueraded || result.end == ChainEnd::translated)
      doubt_order(one, way);
    if (!take(std::move(result), fmt::format("{} {}", one.table, name_of(hook)), way)) return false;
  }
  return true;
}

// Which of two chains of one priority the kernel calls first depends on which was made last, and
// that of legacy iptables may translate as well.
void HookPass::doubt_order(const NftChainPlace& place, OnItsWay way) const {
  const auto hook = place.base.hook;
  const bool at_source = hook == Hook::postrouting || hook == Hook::input;
  const plan::TableKey legacy{way.packet.destination.family(), Table::nat};
  if (place.base.priority != (at_source ? kSourceNat : kDestinationNat) ||
      !node_.tables.contains(legacy))
    return;
  way.steps.push_back({.stage = fmt::format("{} {}", place.table, name_of(hook)),
                       .chain = place.chain,
                       .text = "has the priority of iptables' chain: the newer one is first",
                       .unjudged = true});
}

// A chain of nf_tables with the priority of iptables' may be first, and end the packet otherwise.
void HookPass::doubt_end(Table table, const std::string& chain, const ChainWalk& end,
                         const Packet& before, OnItsWay way) const {
  const auto notice = [](const ChainWalk& walk) {
    return walk.end == ChainEnd::rejected ? notice_of(walk.rejected_as) : Notice::none;
  };
  if (!is_lost(end) || table == Table::nat || table == Table::kube_ipvs) return;
  const auto priority = table == Table::raw ? kRaw : table == Table::mangle ? kMangle : kFilter;
  for (const auto& one : node_.nft_chains) {
    const auto& base = one.base;
    if (base.type == "nat" || base.priority != priority || hook_word(chain) != name_of(base.hook))
      continue;
    auto packet = before;
    const auto other = walk_nft_chain(node_, one.table, one.chain, packet, is_local_);
    if (!is_lost(other) || notice(other) == notice(end)) continue;
    way.steps.push_back(
        {.stage = fmt::format("{} {}", one.table, name_of(base.hook)),
         .chain = one.chain,
         .text = fmt::format(
             "has the priority of iptables' chain: the newer one is first; this one would {}",
             other.end == ChainEnd::dropped
                 ? "drop it"
                 : fmt::format("refuse it ({})", to_string(notice(other)))),
         .unjudged = true});
  }
}

bool HookPass::take(ChainWalk result, const std::string& stage, OnItsWay way) {
  auto& [packet, steps, arrival] = way;
  for (auto& hit : result.hits)
    steps.push_back({.stage = stage,
                     .chain = hit.chain,
                     .text = std::move(hit.rule),
                     .found = std::move(hit.found),
                     .unjudged = hit.unjudged});
  if (!result.marked_because.empty()) marked_because_ = std::move(result.marked_because);
  nat_end_ = result.end;
  if (result.end == ChainEnd::translated) translate(result.translation, way);
  if (result.end != ChainEnd::dropped && result.end != ChainEnd::rejected) return true;
  const auto rule = fmt::format("{} {}", steps.back().chain, steps.back().text);
  steps.back().decides = true;
  const bool rejected = result.end == ChainEnd::rejected;
  arrival.fate = rejected ? Fate::refused : Fate::dropped;
  arrival.notice = rejected ? notice_of(result.rejected_as) : Notice::none;
  arrival.why = stage + ": " + rule;
  return false;
}

// Carries out the translation of the last rule in `steps`.
void HookPass::translate(const ipset::TranslateAction& action, OnItsWay way) const {
  auto& [packet, steps, arrival] = way;
  const auto& rule = steps.back();
  const auto stage = rule.stage;
  if (action.direction == ipset::Direction::src) {
    arrival.masqueraded = true;
    arrival.source_because = fmt::format("{} {}", rule.chain, rule.text);
    arrival.source = packet.source = action.address.value_or(packet.source);
    packet.source_translated = true;
    return note_step(steps, stage, "source becomes " + packet.source.to_string());
  }
  const auto before = std::pair(packet.destination, packet.destination_port);
  packet.destination = action.to_here ? redirect_address(node_, packet)
                                      : action.address.value_or(packet.destination);
  if (action.port != 0) packet.destination_port = action.port;
  // That the destination stays is settled all the same.
  if (before == std::pair(packet.destination, packet.destination_port)) return;
  packet.destination_translated = true;
  arrival.translated_to = netlink::to_string(packet.destination, packet.destination_port);
  note_step(steps, stage, "destination becomes " + arrival.translated_to);
}

}  // namespace ipvsproxier::ctl

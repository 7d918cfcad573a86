#include "proxier/sync/take_over.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ipset/rules/removal_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::sync {

namespace {

using netlink::Family;

}  // namespace

std::vector<ipset::RuleRemoval> removals_from(ipset::PacketFilter other, Family family) {
  if (other == ipset::PacketFilter::iptables) return ipset::all_removals(family);
  return {{.family = family, .table = ipset::Table::kube_ipvs}};
}

struct TakeOver::Removed {
  std::size_t chains = 0;
  std::size_t jumps = 0;
};

TakeOver::TakeOver(ipset::RuleTable& rules, std::optional<OtherFilter> other,
                   RemoveNftLeftovers remove_nft_leftovers, spdlog::logger& logger,
                   ipset::SetTable* ip_sets, bool kube_router)
    : rules_(rules),
      other_(other),
      remove_nft_leftovers_(std::move(remove_nft_leftovers)),
      logger_(logger),
      ip_sets_(ip_sets),
      kube_router_(kube_router) {}

void TakeOver::begin() {
  if (std::exchange(begun_, true)) return;
  const auto move = ipset::services_move();
  for (const auto family : netlink::kFamilies)
    for (const auto& surplus : ipset::iptables_mode_removals(family)) {
      if (surplus.table != ipset::Table::nat) continue;
      const auto moved = rules_.set_aside(move, surplus);
      if (!moved)
        logger_.warn("{}: new connections may be lost until all is programmed",
                     netlink::to_string(moved.error()));
      else if (*moved)
        logger_.info("{}: rules of kube-proxy's iptables mode go on in chain {} meanwhile",
                     to_string(family), move.aside);
    }
}

void TakeOver::finish(Family family) {
  Removed removed;
  const bool no_rules = remove_rules(family, removed);
  const bool no_nft = remove_nft(family);
  const bool no_other = remove_other(family);
  const bool no_router = remove_kube_router(family);
  if (removed.chains + removed.jumps > 0)
    logger_.info("took over from kube-proxy's iptables mode: removed {} chains and {} jumps of {}",
                 removed.chains, removed.jumps, to_string(family));
  const bool no_earlier = remove_earlier_sets(family);
  if (no_rules && no_nft && no_other && no_router && no_earlier) pending_.erase(family);
}

bool TakeOver::remove_rules(Family family, Removed& removed) {
  bool done = true;
  for (const auto& removal : ipset::iptables_mode_removals(family)) {
    const auto result = rules_.remove(removal);
    if (!result) {
      logger_.warn("rules of kube-proxy's iptables mode: {}; {}",
                   netlink::to_string(result.error()), next_);
      done = false;
      continue;
    }
    removed.chains += result->chains;
    removed.jumps += result->jumps;
    for (const auto& chain : result->in_use)
      tell_once(fmt::format("{} table {}: chain {} of kube-proxy's iptables mode {}",
                            to_string(family), to_string(removal.table), chain,
                            ipset::in_use_text(chain)));
  }
  return done;
}

bool TakeOver::remove_other(Family family) {
  if (!other_) return true;
  const bool legacy = other_->filter == ipset::PacketFilter::iptables;
  Removed removed;
  for (const auto& removal : removals_from(other_->filter, family)) {
    const auto gone = other_->rules->remove(removal);
    if (!gone) {
      logger_.warn("our earlier rules of {}: {}; {}", to_string(other_->filter),
                   netlink::to_string(gone.error()), next_);
      return false;
    }
    removed.chains += gone->chains;
    removed.jumps += gone->jumps;
    for (const auto& chain : gone->in_use)
      tell_once(fmt::format("{} table {}: chain {} {}", to_string(family), to_string(removal.table),
                            chain, ipset::in_use_text(chain)));
  }
  std::size_t sets = 0;
  const bool no_sets = !legacy || other_->sets == nullptr || remove_sets(family, sets);
  if (removed.chains + removed.jumps + sets > 0)
    logger_.info("took over from {}: removed {} chains, {} jumps and {} sets of {}",
                 to_string(other_->filter), removed.chains, removed.jumps, sets, to_string(family));
  return no_sets;
}

// Its chain rejects what is no port that it knew. Sets that its network policies use stay.
bool TakeOver::remove_kube_router(Family family) {
  if (!kube_router_ || ip_sets_ == nullptr) return true;
  const bool legacy_is_other = other_ && other_->filter == ipset::PacketFilter::iptables;
  auto& rules = legacy_is_other ? *other_->rules : rules_;
  Removed removed;
  for (const auto& removal : ipset::kube_router_removals(family)) {
    const auto gone = rules.remove(removal);
    if (!gone) {
      logger_.warn("rules of kube-router: {}; {}", netlink::to_string(gone.error()), next_);
      return false;
    }
    removed.chains += gone->chains;
    removed.jumps += gone->jumps;
  }
  std::size_t sets = 0;
  for (const auto& name : ipset::kube_router_sets(family)) {
    const auto there = ip_sets_->list(name);
    if (there && !*there) continue;
    const bool known = there || there.error().kind == netlink::ErrorKind::unsupported;
    if (known && ip_sets_->destroy(name)) ++sets;
  }
  if (removed.chains + removed.jumps + sets > 0)
    logger_.info(
        "took over from kube-router's service proxy: removed {} chains, {} jumps and {} sets of {}",
        removed.chains, removed.jumps, sets, to_string(family));
  return true;
}

// After the rules, which used them.
bool TakeOver::remove_earlier_sets(Family family) {
  if (ip_sets_ == nullptr) return true;
  bool done = true;
  for (const auto& name : ipset::sets_of_earlier_builds(family)) {
    const auto there = ip_sets_->list(name);
    // A set of another kind is another program's.
    if (!there || !*there || (*there)->spec.kind != ipset::SetKind::hash_ip_port) continue;
    if (const auto gone = ip_sets_->destroy(name); !gone) {
      tell_once(fmt::format("set {} of an earlier version stays: {}; {}", name,
                            netlink::to_string(gone.error()), next_));
      done = false;
    }
  }
  return done;
}

// The IP sets of a family; false: again later. What shuts traffic out goes before what lets it in:
// a process that ends in between leaves sets that the next one fills, with its rules in place.
bool TakeOver::remove_sets(Family family, std::size_t& count) {
  bool done = true;
  const auto in_add_order = ipset::sets_of(other_->filter);
  for (const auto id : std::vector(in_add_order.rbegin(), in_add_order.rend())) {
    const auto name = ipset::set_name(id, family);
    const auto there = other_->sets->list(name);
    if (there && !*there) continue;
    // A set of another kind under our name goes as well.
    const bool known = there || there.error().kind == netlink::ErrorKind::unsupported;
    const auto gone = known ? other_->sets->destroy(name) : netlink::Status(there.error());
    if (gone) {
      ++count;
      continue;
    }
    tell_once(fmt::format("set {} of iptables stays: {}; {}", name,
                          netlink::to_string(gone.error()), next_));
    done = false;
  }
  return done;
}

bool TakeOver::remove_nft(Family family) {
  if (!remove_nft_leftovers_) return true;
  const auto gone = remove_nft_leftovers_(family);
  if (!gone) {
    logger_.warn("what kube-proxy left in nf_tables: {}; {}", netlink::to_string(gone.error()),
                 next_);
    return false;
  }
  if (gone->table)
    logger_.info("took over from kube-proxy's nftables mode: removed its {} table",
                 to_string(family));
  if (gone->chains > 0)
    logger_.info(
        "took over from a kube-proxy with iptables-nft: removed {} chains and {} jumps of {}",
        gone->chains, gone->jumps, to_string(family));
  for (const auto& chain : gone->held_back)
    tell_once(fmt::format(
        "chain {} of a kube-proxy with iptables-nft stays: it accepts what its table drops by "
        "policy, and ours in the legacy tables cannot; --cleanup removes it",
        chain));
  for (const auto& chain : gone->in_use)
    tell_once(fmt::format("chain {} of a kube-proxy with iptables-nft {}", chain,
                          ipset::in_use_text(chain)));
  return true;
}

void TakeOver::tell_once(const std::string& warning) {
  if (told_.insert(warning).second) logger_.warn("{}", warning);
}

}  // namespace ipvsproxier::sync

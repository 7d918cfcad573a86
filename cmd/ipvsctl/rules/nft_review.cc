#include "cmd/ipvsctl/rules/nft_review.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "cmd/ipvsctl/rules/chain_review.h"
#include "cmd/ipvsctl/rules/wanted_rules.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/rule_decoding.h"
#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ctl {

using ipset::FilterContents;
using ipset::SetId;
using netlink::Family;

namespace {

// In the order in which a packet from outside meets them.
constexpr std::array<std::string_view, 4> kBaseChains = {"prerouting", "input", "output",
                                                         "postrouting"};

std::string full_name(const std::string& set, Family family) {
  return netlink::to_string(ipset::nft_table_of(family)) + " " + set;
}

// The rules that the chain of source ranges should have, by the set of the same name.
std::vector<ipset::Rule> wanted_of_ranges(const ipset::RestrictedService& service,
                                          const FilterContents& contents) {
  const auto set = contents.sets.find(ipset::ranges_name(service));
  if (set == contents.sets.end()) return ipset::rules_of_ranges(service, {});
  const auto prefixes = ipset::prefixes_of(set->second.elements, service.address.family());
  return ipset::rules_of_ranges(service, prefixes.value_or(std::vector<netlink::IpPrefix>{}));
}

class NftReview {
 public:
  NftReview(const RuleReading& reading, const FilterContents& contents, Family family,
            const RuleChoice& choice)
      : contents_(contents),
        key_{family, ipset::Table::kube_ipvs},
        read_(*table_of(reading, key_)),
        choice_(choice) {
    const auto nearest = nearest_rules(reading, ipset::PacketFilter::nftables, family);
    wanted_ = wanted_in(nearest, ipset::Table::kube_ipvs);
    if (!has_ours()) wanted_ = {};
    if (!wanted_.chains.empty()) want_restricted_chains();
    find_ways();
  }

  std::vector<ReviewedChain> all() {
    for (const auto name : kBaseChains)
      if (wanted_.chains.contains(std::string(name))) add_ours(std::string(name));
    for (const auto& [name, rules] : wanted_.chains) add_ours(name);
    for (const auto& [name, chain] : contents_.chains)
      if (!added_.contains(name)) add_foreign(name, chain);
    return std::move(result_);
  }

 private:
  bool has_ours() const {
    const bool chain = std::ranges::any_of(
        wanted_.chains, [&](const auto& one) { return contents_.chains.contains(one.first); });
    return chain || std::ranges::any_of(contents_.sets, [&](const auto& one) {
             return is_our_set(one.second.spec, key_.family);
           });
  }

  // Those of virtual services with source ranges, as far as they are there.
  void want_restricted_chains() {
    const auto family = key_.family;
    for (const auto& [name, _] : contents_.chains) {
      if (const auto service = ipset::restricted_of(name);
          service && service->address.family() == family)
        wanted_.chains[name] = wanted_of_ranges(*service, contents_);
      if (const auto chain = ipset::restricted_chain_of(name);
          chain && chain->service.address.family() == family)
        wanted_.chains[name] = ipset::rules_of(*chain);
    }
  }

  // Where each map sends packets, and which chains the existing rules lead to.
  void find_ways() {
    for (const auto& [name, set] : contents_.sets)
      for (const auto& element : set.elements)
        if (const auto* verdict =
                element.data ? std::get_if<netlink::NftVerdict>(&*element.data) : nullptr)
          if (!verdict->chain.empty()) led_[full_name(name, key_.family)].insert(verdict->chain);
    // Which Services there are does not matter.
    auto& services = led_[ipset::set_name(SetId::nft_services, key_.family)];
    for (const auto verdict : ipset::kServiceVerdicts) services.emplace(ipset::chain_of(verdict));
    for (const auto& [name, rules] : read_.chains)
      for (const auto& rule : rules) reached_.merge(targets_of(rule));
  }

  std::set<std::string> targets_of(const ipset::Rule& rule) const {
    if (const auto* map = std::get_if<ipset::VerdictMapTarget>(&rule.target)) {
      const auto led = led_.find(map->map);
      return led == led_.end() ? std::set<std::string>{} : led->second;
    }
    if (const auto* foreign = std::get_if<ipset::ForeignTarget>(&rule.target)) {
      if (const auto* go = std::get_if<ipset::GotoAction>(&foreign->action)) return {go->chain};
      if (const auto* jump = std::get_if<ipset::JumpTarget>(&foreign->action)) return {jump->chain};
    }
    if (auto chain = target_chain(rule); !chain.empty()) return {std::move(chain)};
    return {};
  }

  void add(ReviewedChain chain) {
    if (choice_.chain.empty() || choice_.chain == chain.name) result_.push_back(std::move(chain));
  }

  void add_ours(const std::string& name) {
    if (!added_.insert(name).second) return;
    ReviewedChain chain{.table = key_, .name = name};
    const auto found = contents_.chains.find(name);
    chain.missing = found == contents_.chains.end();
    chain.reached = reached_.contains(name);
    if (!chain.missing) {
      take_base(chain, found->second);
      if (const auto wanted = ipset::base_of(name); wanted != found->second.base)
        chain.wanted = wanted;
    }
    chain.rules = ChainReview(read_, wanted_, name).ordered();
    add(std::move(chain));
    for (const auto& rule : rules_of(read_.chains, name))
      for (const auto& target : targets_of(rule))
        if (wanted_.chains.contains(target)) add_ours(target);
  }

  void add_foreign(const std::string& name, const ipset::FilterChain& found) {
    ReviewedChain chain{.table = key_, .name = name};
    chain.foreign = true;
    chain.reached = reached_.contains(name);
    take_base(chain, found);
    chain.rules = ChainReview(read_, wanted_, name).all_in(RuleState::foreign);
    add(std::move(chain));
  }

  void take_base(ReviewedChain& chain, const ipset::FilterChain& found) const {
    chain.base = found.base;
    chain.dormant = found.base && contents_.flags.dormant;
    if (found.base)
      chain.policy = found.base->accepts ? ipset::Verdict::accept : ipset::Verdict::drop;
  }

  const FilterContents& contents_;
  const plan::TableKey key_;
  const ipset::WholeTable& read_;
  const RuleChoice& choice_;
  WantedRules wanted_;
  std::map<std::string, std::set<std::string>> led_;  // by map
  std::set<std::string> reached_;
  std::set<std::string> added_;
  std::vector<ReviewedChain> result_;
};

}  // namespace

void take_nft_table(RuleReading& reading, Family family, FilterContents contents) {
  reading.tables[{family, ipset::Table::kube_ipvs}] = ipset::whole_table_of(contents, family);
  for (const auto& [name, set] : contents.sets)
    reading.sets[full_name(name, family)] = element_count(set, family);
  reading.nft[family] = std::move(contents);
}

std::vector<ReviewedChain> review_nft(const RuleReading& reading, Family family,
                                      const RuleChoice& choice) {
  const auto contents = reading.nft.find(family);
  if (contents == reading.nft.end()) return {};
  return NftReview(reading, contents->second, family, choice).all();
}

std::vector<ForeignSet> foreign_sets(const RuleReading& reading) {
  std::vector<ForeignSet> foreign;
  for (const auto& [family, contents] : reading.nft)
    std::ranges::move(foreign_sets_of(contents, family), std::back_inserter(foreign));
  return foreign;
}

}  // namespace ipvsproxier::ctl

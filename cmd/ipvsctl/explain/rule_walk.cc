#include "cmd/ipvsctl/explain/rule_walk.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "ipset/judge/nft_judge.h"
#include "ipset/judge/rule_judge.h"
#include "ipset/nftables/foreign_steps.h"
#include "ipset/nftables/nft_set_elements.h"

namespace ipvsproxier::ctl {

namespace {

using ipset::NftStep;
using ipset::Rule;

class TableWalk {
 public:
  // `nft_table`: the name of a table of nf_tables; "" for iptables.
  TableWalk(const NodeReading& node, plan::TableKey key, std::string nft_table,
            const ipset::WholeTable& table, const IsLocal& is_local)
      : key_(key),
        nft_table_(std::move(nft_table)),
        is_ours_(nft_table_ == to_string(ipset::nft_table_of(key.family))),
        table_(table),
        facts_(node, is_local) {
    const auto rules = node.nft_rules.find(nft_table_);
    if (rules == node.nft_rules.end()) return;
    steps_ = &rules->second;
    sets_ = {.table = nft_table_, .find = [this](const std::string& name) {
               const auto set = steps_->sets.find(name);
               return set == steps_->sets.end() ? nullptr : &set->second;
             }};
  }

  ChainWalk walk(const std::string& chain, Packet& packet) {
    if (!table_.chains.contains(chain)) return {};
    const auto policy = table_.policies.find(chain);
    const bool accepts = policy == table_.policies.end() || policy->second != ipset::Verdict::drop;
    const auto find = [this](const std::string& name) { return rules_of(name); };
    return walk_rules({.find = find}, chain, accepts, packet, budget_);
  }

 private:
  std::optional<ipset::ChainRules> rules_of(const std::string& chain) {
    const auto rules = table_.chains.find(chain);
    if (rules == table_.chains.end()) return std::nullopt;
    return ipset::ChainRules{
        .size = rules->second.size(),
        .judge =
            [this, rules](std::size_t i, const Packet& packet) {
              return judge(rules->second[i], steps_of(rules->first, i), packet);
            },
        // Others may have ten thousand rules, of which few match.
        .text = [this, rules](std::size_t i) { return text_of(rules->second[i]); }};
  }

  // nullptr: the rule is judged by our vocabulary.
  const std::vector<NftStep>* steps_of(const std::string& chain, std::size_t place) const {
    if (steps_ == nullptr) return nullptr;
    const auto rules = steps_->chains.find(chain);
    if (rules == steps_->chains.end() || place >= rules->second.size()) return nullptr;
    return &rules->second[place];
  }

  ipset::RuleOutcome judge(const Rule& rule, const std::vector<NftStep>* steps,
                           const Packet& packet) {
    const bool is_foreign = std::holds_alternative<ipset::ForeignTarget>(rule.target);
    if (steps != nullptr && (is_foreign || !is_ours_))
      return ipset::judge_nft(*steps, sets_, facts_, packet, budget_);
    return ipset::RuleJudge(facts_, packet).outcome(rule);
  }

  std::string text_of(Rule rule) const {
    if (key_.table == ipset::Table::kube_ipvs) return to_nft_string(rule, key_.family);
    rule.comment.clear();
    return to_string(rule, key_.family);
  }

  plan::TableKey key_;
  std::string nft_table_;
  bool is_ours_;
  const ipset::WholeTable& table_;
  ReadFacts facts_;
  const NftRules* steps_ = nullptr;
  ipset::NftSets sets_;
  ipset::LookBudget budget_{std::numeric_limits<std::size_t>::max()};
};

}  // namespace

Answer ReadFacts::is_local(const Packet& packet, ipset::Direction direction, Limit limit) const {
  const auto& address = address_at(packet, direction);
  if (limit == Limit::none) return ipset::answer_of(is_local_(address));
  const auto& name = limit == Limit::in_link ? packet.in_link : packet.out_link;
  const auto link = std::ranges::find(node_.links, name, &netlink::LinkRecord::name);
  if (link == node_.links.end()) return Answer::no;
  return ipset::answer_of(
      std::ranges::any_of(node_.addresses, [&](const netlink::AddressRecord& record) {
        return record.link_index == link->index && record.address == address;
      }));
}

Answer ReadFacts::is_broadcast(const netlink::IpAddress& address) const {
  if (address == netlink::IpAddress::v4(0xffffffff)) return Answer::yes;
  return ipset::answer_of(
      std::ranges::any_of(node_.addresses, [&](const netlink::AddressRecord& record) {
        if (record.address.family() != netlink::Family::ipv4 || record.prefix_length >= 31)
          return false;
        const auto subnet = netlink::IpPrefix::of(record.address, record.prefix_length);
        const auto host_bits = 0xffffffffU >> record.prefix_length;
        std::uint32_t network = 0;
        for (const auto byte : subnet.address.bytes()) network = network << 8 | byte;
        return netlink::IpAddress::v4(network | host_bits) == address;
      }));
}

std::optional<std::uint32_t> ReadFacts::link_index(const std::string& name) const {
  const auto link = std::ranges::find(node_.links, name, &netlink::LinkRecord::name);
  if (link == node_.links.end()) return std::nullopt;
  return static_cast<std::uint32_t>(link->index);
}

const std::set<ipset::Element>* ReadFacts::set(const std::string& name) const {
  const auto set = node_.sets.find(name);
  return set == node_.sets.end() ? nullptr : &set->second;
}

const std::vector<ipset::NetMember>* ReadFacts::nets(const std::string& name) const {
  const auto nets = node_.net_sets.find(name);
  return nets == node_.net_sets.end() ? nullptr : &nets->second;
}

ChainWalk walk_chain(const NodeReading& node, plan::TableKey table, const std::string& chain,
                     Packet& packet, const IsLocal& is_local) {
  const auto found = node.tables.find(table);
  if (found == node.tables.end()) return {};
  const bool is_nft = table.table == ipset::Table::kube_ipvs;
  auto nft_table = is_nft ? to_string(ipset::nft_table_of(table.family)) : std::string();
  return TableWalk(node, table, std::move(nft_table), found->second, is_local).walk(chain, packet);
}

ChainWalk walk_nft_chain(const NodeReading& node, const std::string& table,
                         const std::string& chain, Packet& packet, const IsLocal& is_local) {
  const plan::TableKey key{packet.family(), ipset::Table::kube_ipvs};
  return TableWalk(node, key, table, node.nft_tables.at(table), is_local).walk(chain, packet);
}

}  // namespace ipvsproxier::ctl

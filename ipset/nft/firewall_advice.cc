#include "ipset/nft/firewall_advice.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ipvsproxier::ipset {

namespace {

using netlink::Family;
using What = Passing::What;

constexpr std::size_t kNamedAddresses = 8;
constexpr std::size_t kNamedPorts = 14;  // of 15 that a rule of iptables may name

std::string_view word_of(Family family) {
  return family == Family::ipv4 ? "ip" : "ip6";
}

// What of the samples a chain has to let pass.
struct Needed {
  std::map<Family, std::vector<std::string>> addresses;
  // Of node ports: the default range, and some of those outside of it.
  std::map<netlink::Protocol, std::set<std::uint16_t>> ports;
};

Needed needed_by(const Judged& judged) {
  std::map<Family, std::set<netlink::IpAddress>> addresses;
  Needed needed;
  for (const auto& sample : judged.dropped) {
    auto& of_family = addresses[sample.address.family()];
    if (sample.is_node_port) {
      auto& ports = needed.ports[sample.protocol];
      const bool usual = is_usual_node_port(sample.port);
      if (ports.size() < kNamedPorts) ports.insert(usual ? kFirstNodePort : sample.port);
    } else if (of_family.size() < kNamedAddresses) {
      of_family.insert(sample.address);
    }
  }
  for (const auto family : judged.families) needed.addresses[family] = {"SERVICE-ADDRESSES"};
  for (const auto& [family, some] : addresses)
    for (const auto& address : some) needed.addresses[family].push_back(address.to_string());
  return needed;
}

// "30000-32767", or "{ 8080, 30000-32767 }" with one of nf_tables.
std::string ports_text(const std::set<std::uint16_t>& ports, char between) {
  std::vector<std::string> words;
  for (const auto port : ports)
    words.push_back(port == kFirstNodePort
                        ? fmt::format("{}{}{}", kFirstNodePort, between, kLastNodePort)
                        : std::to_string(port));
  if (between == ':') return fmt::format("{}", fmt::join(words, ","));
  return words.size() == 1 ? words.front() : fmt::format("{{ {} }}", fmt::join(words, ", "));
}

// A word for a shell.
std::string quoted_for_shell(const std::string& word) {
  const bool is_plain = std::ranges::all_of(word, [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
           letter == '-' || letter == '.' || letter == ' ';
  });
  if (is_plain) return word;
  std::string quoted_word = "'";
  for (const auto letter : word)
    quoted_word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted_word + "'";
}

// "nft insert rule inet host c ip daddr { 10.96.0.1, 10.96.0.10 } accept", for each family and for
// node ports. What IPVS sends is known by the destination that the client asked for.
std::vector<std::string> nft_rules_for(const ChainName& name, What what, const Judged& judged) {
  const auto insert = fmt::format("nft insert rule {} {}", quoted_for_shell(name.table),
                                  quoted_for_shell(name.chain));
  if (what == What::answers) return {insert + " ct state established,related accept"};
  const bool is_sent = what == What::is_sent;
  const auto needed = needed_by(judged);
  std::vector<std::string> rules;
  for (const auto& [family, addresses] : needed.addresses)
    rules.push_back(fmt::format("{} {}{} daddr {{ {} }} accept", insert,
                                is_sent ? "ct original " : "", word_of(family),
                                fmt::join(addresses, ", ")));
  std::set<std::uint16_t> ports;
  for (const auto& [_, some] : needed.ports) ports.insert(some.begin(), some.end());
  if (!ports.empty())
    rules.push_back(fmt::format("{} meta l4proto {{ tcp, udp, sctp }} {} {} accept", insert,
                                is_sent ? "ct original proto-dst" : "th dport",
                                ports_text(ports, '-')));
  return rules;
}

bool leads_to_ours(const Rule& rule) {
  const auto* jump = std::get_if<JumpTarget>(&rule.target);
  const auto* foreign = std::get_if<ForeignTarget>(&rule.target);
  if (foreign != nullptr) jump = std::get_if<JumpTarget>(&foreign->action);
  return jump != nullptr && (is_proxy_chain(jump->chain) || jump->chain == kForwardChain);
}

// "iptables-legacy -I INPUT 4 -d 10.96.0.1,10.96.0.10 -j ACCEPT": behind all rules that lead to
// ours, which hold source ranges.
std::vector<std::string> legacy_rules_for(Family family, const Passing& passing,
                                          const std::vector<Rule>& chain, const Judged& judged) {
  const auto last = std::find_if(chain.rbegin(), chain.rend(), leads_to_ours);
  const auto first = chain.rend() - last + 1;
  const auto insert =
      fmt::format("{} -I {}{}", family == Family::ipv4 ? "iptables-legacy" : "ip6tables-legacy",
                  passing.legacy_chain, first == 1 ? "" : fmt::format(" {}", first));
  if (passing.what == What::answers)
    return {insert + " -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"};
  if (passing.what == What::is_sent) return {insert + " -m ipvs --ipvs -j ACCEPT"};
  const auto needed = needed_by(judged);
  std::vector<std::string> rules;
  for (const auto& [_, addresses] : needed.addresses)
    rules.push_back(fmt::format("{} -d {} -j ACCEPT", insert, fmt::join(addresses, ",")));
  for (const auto& [protocol, ports] : needed.ports)
    rules.push_back(fmt::format(
        "{} -p {}{} {} -j ACCEPT", insert, netlink::to_lower_string(protocol),
        ports.size() == 1 ? " --dport" : " -m multiport --dports", ports_text(ports, ':')));
  return rules;
}

std::string_view words_of(What what) {
  if (what == What::is_sent) return "what IPVS sends to pods";
  if (what == What::checks_health) return "what comes for health check node ports";
  return what == What::answers ? "what pods answer" : "what comes for Services";
}

std::string example_of(const Judged& judged) {
  if (judged.dropped.empty()) return "";
  const auto& one = judged.dropped.front();
  if (one.address == netlink::IpAddress::any(one.address.family())) return "";
  return fmt::format(" (of {})", netlink::to_string(one.address, one.port));
}

// `title`: of the chain, with its kind. `by_addresses`: the rules name some addresses of many.
std::string drop_text(const std::string& title, What what, const Judged& judged,
                      const std::vector<std::string>& rules, bool by_addresses) {
  return fmt::format("{} {} {}{}{}, and no rule of another table can let it through; add: {}{}",
                     title, judged.drops ? "drops" : "may drop", words_of(what), example_of(judged),
                     judged.by_policy ? " by its policy" : "", fmt::join(rules, "; "),
                     by_addresses ? "; with all addresses of Services" : "");
}

std::string to_words(const ChainName& name) {
  return name.table + " " + name.chain;
}

}  // namespace

FirewallWarning nft_drop_warning(const ChainName& name, const Passing& passing,
                                 const Judged& judged) {
  return {
      .drops = judged.drops,
      .chain = to_words(name),
      .text = drop_text("nf_tables chain " + to_words(name), passing.what, judged,
                        nft_rules_for(name, passing.what, judged), passing.what != What::answers),
      .table = nft_table_name(name.table),
      .of = PacketFilter::nftables};
}

FirewallWarning legacy_drop_warning(Family family, const Passing& passing,
                                    const std::vector<Rule>& chain, const Judged& judged) {
  const auto table = legacy_table_name(family);
  return {.drops = judged.drops,
          .chain = fmt::format("legacy {} {}", netlink::to_string(family), passing.legacy_chain),
          .text = drop_text(fmt::format("{}: chain {}", table, passing.legacy_chain), passing.what,
                            judged, legacy_rules_for(family, passing, chain, judged),
                            passing.what == What::comes),
          .table = table,
          .of = PacketFilter::iptables};
}

FirewallWarning take_warning(const ChainName& name, const Judged& judged, PacketFilter filter) {
  const auto* const remedy =
      filter == PacketFilter::iptables
          ? "no rule of iptables can keep it: give the host port another number, or run the daemon "
            "with --packet-filter=nftables (not with --kube-proxy-compat)"
          : "the chain comes before ours: give it a priority above that of ours";
  return {.drops = judged.drops,
          .chain = to_words(name) + " (destinations)",
          .text = fmt::format("nf_tables chain {} {} what comes for Services{} to another "
                              "destination, and {}",
                              to_words(name), judged.drops ? "takes" : "may take",
                              example_of(judged), remedy),
          .table = nft_table_name(name.table),
          .of = PacketFilter::nftables};
}

bool is_proxy_chain(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"KUBE-EXTERNAL-SERVICES", "KUBE-FIREWALL", "KUBE-IPTABLES-HINT", "KUBE-IPVS-FILTER",
       "KUBE-IPVS-OUT-FILTER", "KUBE-KUBELET-CANARY", "KUBE-LOAD-BALANCER", "KUBE-MARK-DROP",
       "KUBE-MARK-MASQ", "KUBE-NODE-PORT", "KUBE-NODEPORTS", "KUBE-POSTROUTING",
       "KUBE-PROXY-CANARY", "KUBE-PROXY-FIREWALL", "KUBE-SERVICES", "KUBE-SERVICES-IPTABLES",
       "KUBE-SOURCE-RANGES-FIREWALL"});
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("KUBE-IN-CLUSTER");
}

}  // namespace ipvsproxier::ipset

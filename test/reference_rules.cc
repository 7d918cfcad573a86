#include "test/reference_rules.h"

#include <sstream>
#include <stdexcept>

#include "test/support/files.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {

using ipset::RuleParameters;
using ipset::SetId;
using netlink::Family;

namespace {

std::string folder(const ReferenceConfiguration& configuration) {
  return data_path("reference/shop/") + configuration.name + "/kernel/";
}

std::set<SetId> non_empty_sets(const ReferenceConfiguration& configuration) {
  std::set<std::string> names;
  std::istringstream members(read_file(folder(configuration) + "ipset-members.txt"));
  for (std::string add, name, element; members >> add >> name >> element;) names.insert(name);
  std::set<SetId> result;
  for (const auto id : ipset::kSetIds)
    if (names.count(ipset::set_name(id, configuration.family)) != 0) result.insert(id);
  return result;
}

}  // namespace

std::vector<ReferenceConfiguration> reference_configurations() {
  std::vector<ReferenceConfiguration> result;
  for (const auto family : netlink::kFamilies) {
    const bool v4 = family == Family::ipv4;
    const auto* const cluster = v4 ? "10.244.0.0/16" : "fd00:244::/64";
    RuleParameters base{.vip_ping = false};
    // The source ranges of the load balancer in the objects do not cover the node.
    if (v4)
      base.out_filter = {{.address = *netlink::IpAddress::parse("192.0.2.10"),
                          .protocol = netlink::Protocol::tcp,
                          .port = 443}};
    auto by_cidr = base;
    by_cidr.detector = *netlink::IpPrefix::parse(cluster);
    auto all = base;
    all.masquerade_all = true;
    auto bit_ten = base;
    bit_ten.masquerade_mark = 1 << 10;
    result.push_back({"clustercidr", family, by_cidr});
    result.push_back({"masqall-mh", family, all});
    result.push_back({"nolocaldetect", family, bit_ten});
  }
  for (auto& configuration : result)
    configuration.parameters.non_empty = non_empty_sets(configuration);
  return result;
}

SavedRules parse_saved_rules(const std::string& text) {
  SavedRules result;
  std::string table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('*')) table = line.substr(1);
    if (!line.starts_with("-A ")) continue;
    const auto end = line.find(' ', 3);
    result[table][line.substr(3, end - 3)].push_back(line);
  }
  return result;
}

std::string reference_rules_text(const ReferenceConfiguration& configuration) {
  const auto* const file = configuration.family == Family::ipv4 ? "iptables.txt" : "ip6tables.txt";
  return read_file(folder(configuration) + file);
}

SavedRules printed_rules(const std::vector<ipset::TableRules>& tables) {
  SavedRules result;
  for (const auto& table : tables) {
    auto& chains = result[std::string(to_string(table.table))];
    const auto print = [&](const std::string& chain, const ipset::Rule& rule) {
      return "-A " + chain + " " + to_string(rule, table.family);
    };
    for (const auto& chain : table.chains)
      for (const auto& rule : chain.rules) chains[chain.name].push_back(print(chain.name, rule));
    for (const auto& jump : table.jumps) {
      auto& lines = chains[jump.from];
      lines.insert(lines.begin(), print(jump.from, jump.rule));
    }
  }
  return result;
}

}  // namespace ipvsproxier::test

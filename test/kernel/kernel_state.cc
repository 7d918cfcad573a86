#include "test/kernel/kernel_state.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "test/kernel/packet_filter.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

// The value of a word like "initval" is luck, and how far a hash has grown is history.
std::string without_luck(const std::string& set_header) {
  std::istringstream words(set_header);
  std::string result;
  for (std::string word; words >> word;) {
    std::string value;
    if (word == "hashsize" || word == "initval" || word == "bucketsize")
      words >> value;
    else
      result += word + " ";
  }
  return result;
}

std::string without_counters(const std::string& chain) {
  return chain.substr(0, chain.find(" ["));
}

// Lines of what `commands` print: sorted up to "rules", behind it in their order but for comments.
template <typename StateLine, typename RuleLine>
std::vector<std::string> state_lines(const Netns& netns, const std::string& commands,
                                     const StateLine& state_line, const RuleLine& rule_line) {
  std::istringstream output(netns.inside([&] { return shell("set -e; " + commands); }));
  std::vector<std::string> lines;
  bool in_rules = false;
  for (std::string line; std::getline(output, line);) {
    if (line == "rules") {
      in_rules = true;
      std::sort(lines.begin(), lines.end());
    } else if (!in_rules) {
      lines.push_back(state_line(line));
    } else if (line[0] != '#') {
      lines.push_back(rule_line(line));
    }
  }
  return lines;
}

// The lines of nf_tables, sorted: a rule with its chain and its place in it, an element with its
// set. Chains and sets are listed in the order in which they were made.
void add_nft_lines(const Netns& netns, std::vector<std::string>& lines) {
  static const std::regex of_list(R"(^elements = \{ | \}$)");
  static const std::regex comma(", *");
  std::istringstream output(netns.inside([] { return shell("nft -s list ruleset"); }));
  std::vector<std::string> own;
  std::string table;
  std::string object;
  int place = 0;
  for (std::string line; std::getline(output, line);) {
    const auto start = line.find_first_not_of('\t');
    if (start == std::string::npos || line[start] == '}') continue;
    const std::string text = line.substr(start);
    if (start == 0) table = text;
    if (start == 1) object = text;
    if (start == 1) place = 0;
    if (start < 2) own.push_back(table + object);
    if (start == 2 && object.starts_with("chain"))
      own.push_back(table + object + std::to_string(place++) + ": " + text);
    if (start < 2 || object.starts_with("chain")) continue;
    const auto elements = std::regex_replace(text, of_list, "");
    for (std::sregex_token_iterator one(elements.begin(), elements.end(), comma, -1), end;
         one != end; ++one)
      if (one->length() > 0) own.push_back(table + object + one->str());
  }
  std::ranges::sort(own);
  lines.insert(lines.end(), own.begin(), own.end());
}

}  // namespace

std::vector<std::string> kernel_lines(const Netns& netns) {
  const std::string filters =
      on_nftables() ? "echo rules" : "ipset save; echo rules; iptables-save; ip6tables-save";
  auto lines = state_lines(
      netns, "ipvsadm -Sn; ip -o addr | sed -n '/ kube-ipvs[0-9]/p'; " + filters,
      [](const std::string& line) {
        if (line.rfind("create ", 0) == 0) return without_luck(line);
        const auto link = line.find("kube-ipvs");  // its number before it
        return link == std::string::npos ? line : line.substr(link);
      },
      [](const std::string& line) { return line[0] == ':' ? without_counters(line) : line; });
  if (on_nftables()) add_nft_lines(netns, lines);
  return lines;
}

std::vector<std::string> everything(const Netns& netns) {
  // Of a policy, and of a rule that matches everything.
  static const std::regex all_traffic(R"((:.*) \[.*|\[.*\] (-A [A-Z]+ -j .*))");
  static const std::regex of_time(" tentative| state [A-Z]+");
  return state_lines(
      netns,
      "ip -o link; ip -o addr; ipvsadm -Sn; ipset save; echo rules; iptables-save -c;"
      " ip6tables-save -c",
      [](const std::string& line) { return std::regex_replace(line, of_time, ""); },
      [](const std::string& line) { return std::regex_replace(line, all_traffic, "$1$2"); });
}

std::string difference(const std::vector<std::string>& expected,
                       const std::vector<std::string>& actual) {
  if (expected == actual) return "";
  auto sorted_expected = expected;
  auto sorted_actual = actual;
  std::sort(sorted_expected.begin(), sorted_expected.end());
  std::sort(sorted_actual.begin(), sorted_actual.end());
  std::vector<std::string> missing;
  std::vector<std::string> surplus;
  std::set_difference(sorted_expected.begin(), sorted_expected.end(), sorted_actual.begin(),
                      sorted_actual.end(), std::back_inserter(missing));
  std::set_difference(sorted_actual.begin(), sorted_actual.end(), sorted_expected.begin(),
                      sorted_expected.end(), std::back_inserter(surplus));
  if (missing.empty() && surplus.empty()) return "the same lines in another order\n";
  constexpr std::size_t kShown = 15;
  std::string text = std::to_string(missing.size()) + " missing, " +
                     std::to_string(surplus.size()) + " not expected\n";
  for (std::size_t i = 0; i < missing.size() && i < kShown; ++i) text += "- " + missing[i] + "\n";
  for (std::size_t i = 0; i < surplus.size() && i < kShown; ++i) text += "+ " + surplus[i] + "\n";
  return text;
}

namespace {

// "-t 10.96.0.9:80" of "-A -t 10.96.0.9:80 -s rr" and "-a -t 10.96.0.9:80 -r 10.244.0.11:8080 ...".
std::string service_in(const std::string& line) {
  return line.substr(3, line.find(' ', 6) - 3);
}

// "10.96.0.9,tcp:80" and "80" as elements of sets have them, of "-t 10.96.0.9:80".
std::vector<std::string> marks_of(const std::string& service) {
  const auto colon = service.rfind(':');
  auto address = service.substr(3, colon - 3);
  if (address.starts_with('[')) address = address.substr(1, address.size() - 2);
  const auto port = service.substr(colon + 1);
  const std::string protocol = service[1] == 't' ? "tcp" : service[1] == 'u' ? "udp" : "sctp";
  return {" " + address + "," + protocol + ":" + port, " " + port};
}

}  // namespace

std::vector<std::string> without_waiting(const std::vector<std::string>& expected,
                                         std::vector<std::string> actual) {
  const std::set<std::string> wanted(expected.begin(), expected.end());
  std::set<std::string> waiting;  // virtual services
  std::set<std::string> used;
  for (const auto& line : actual)
    if (line.starts_with("-a "))
      ((line + " ").find(" -w 0 ") != std::string::npos ? waiting : used).insert(service_in(line));
  for (const auto& line : expected)
    if (line.starts_with("-A ")) used.insert(service_in(line));
  for (const auto& service : used) waiting.erase(service);
  std::set<std::string> marks;
  for (const auto& service : waiting)
    for (const auto& mark : marks_of(service)) marks.insert(mark);
  const auto is_empty_late_set = [lines = actual](const std::string& set) {
    return set.ends_with("OTHER-ENDPOINTS") && std::ranges::none_of(lines, [&](const auto& line) {
             return line.starts_with("add " + set + " ");
           });
  };
  std::erase_if(actual, [&](const std::string& line) {
    if (wanted.contains(line)) return false;
    if (line.starts_with("create "))
      return is_empty_late_set(line.substr(7, line.find(' ', 7) - 7));
    if (line.starts_with("-A ") || line.starts_with("-a "))
      return waiting.contains(service_in(line));
    if (!line.starts_with("add ")) return false;
    const auto element = line.substr(line.find(' ', 4));
    return marks.contains(element.substr(0, element.find(' ', 1)));
  });
  return actual;
}

IpvsView::IpvsView(const Netns& netns)
    : table_(netns.inside([] { return require(netlink::KernelIpvsTable::open()); })) {}

std::optional<netlink::ListedServer> IpvsView::server(const netlink::VirtualServiceKey& service,
                                                      const netlink::RealServerKey& server) {
  const auto listed = table_->list_servers(service);
  if (!listed && listed.error().kind == netlink::ErrorKind::missing) return std::nullopt;
  for (const auto& one : require(listed))
    if (one.server.key == server) return one;
  return std::nullopt;
}

std::optional<std::uint32_t> IpvsView::weight(const netlink::VirtualServiceKey& service,
                                              const netlink::RealServerKey& key) {
  const auto found = server(service, key);
  return found ? std::optional(found->server.weight) : std::nullopt;
}

std::optional<netlink::VirtualService> IpvsView::service(const netlink::VirtualServiceKey& key) {
  for (const auto& one : require(table_->list_services()))
    if (one.key == key) return one;
  return std::nullopt;
}

void IpvsView::apply(const netlink::IpvsOp& op) {
  const auto status = table_->apply({&op, 1}).at(0);
  if (!status) throw std::runtime_error(netlink::to_string(status.error()));
}

}  // namespace ipvsproxier::test

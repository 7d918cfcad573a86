// What ipvs-proxier makes of clusters, as kube_proxy_state.py prints what kube-proxy makes of them:
// the same input and the same lines. Manifests go through the decoder and the selection of the
// watches, the configuration through its reader, and the reconciler works on fakes, with all
// differences from kube-proxy off. Each cluster is one process of the daemon.
//
//   ipvs_proxier_state CLUSTERS
//
// Exit status 1: a cluster or its configuration cannot be read.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/sinks/null_sink.h>
#include <nlohmann/json.hpp>

#include "cmd/options.h"
#include "cmd/settings.h"
#include "proxier/manifests/manifest_set.h"
#include "proxier/sync/reconciler.h"
#include "test/fakes/fake_conntrack_table.h"
#include "test/fakes/fake_ipvs_table.h"
#include "test/fakes/fake_link_table.h"
#include "test/fakes/fake_rule_table.h"
#include "test/fakes/fake_set_table.h"
#include "test/support/ip.h"
#include "test/support/saved_table.h"

namespace ipvsproxier::test {
namespace {

using nlohmann::json;
using Families = std::vector<netlink::Family>;

// Long enough for the real servers that leave (none has connections), less than a sync period.
constexpr std::chrono::seconds kSettle{20};

sync::ReconcilerSettings settings_of(const json& configuration, const Families& families,
                                     unsigned cpus) {
  auto read = cmd::config_of_file(configuration.dump(), "configuration", {});
  if (api::has_error(read.problems))
    throw std::runtime_error("configuration: " + to_string(read.problems.front()));
  cmd::Options options;
  options.config = std::move(read.config);
  options.node_name = cmd::resolve_node_name(options.config, "").value();
  options.differences = plan::kKubeProxyCompat;
  return cmd::reconciler_settings(options, families, cpus);
}

std::vector<std::string> lines_of(const sync::HostSetup& host, const std::string& release) {
  std::vector<std::string> lines;
  for (const auto& rows : {plan::ipvs_sysctls(host.settings.ipvs, release),
                           plan::conntrack_sysctls(host.settings.conntrack, host.cpus)})
    for (const auto& row : rows) lines.push_back(fmt::format("sysctl {}={}", row.key, row.value));
  const auto& timeouts = host.settings.timeouts;
  lines.push_back(fmt::format("timeouts {} {} {}", timeouts.tcp, timeouts.tcp_fin, timeouts.udp));
  return lines;
}

Families families_of(const json& cluster) {
  Families families;
  for (const int family : cluster.value("families", std::vector<int>{4, 6}))
    families.push_back(family == 4 ? netlink::Family::ipv4 : netlink::Family::ipv6);
  return families;
}

// The node's kernel, made of fakes, and the daemon on it.
class Node {
 public:
  explicit Node(const json& cluster)
      : families_(families_of(cluster)),
        settings_(settings_of(cluster.at("configuration"), families_, cluster.value("cpus", 1U))),
        host_lines_(lines_of(*settings_.host, cluster.value("release", "6.1"))),
        logger_("clusters", std::make_shared<spdlog::sinks::null_sink_st>()) {
    for (auto family : netlink::kFamilies)
      for (auto id : ipset::kSetIds) rules_.sets.insert(ipset::set_name(id, family));
    settings_.host.reset();  // the host is not to be touched
    use_links(cluster.at("links"));
    if (cluster.contains("kernel")) leave(cluster.at("kernel"));
    restart();
  }

  // A new process. The next step tells it all objects.
  void restart() {
    reconciler_ = std::make_unique<sync::Reconciler>(
        sync::Kernel{ipvs_, links_, sets_, rules_, conntrack_}, settings_, logger_);
    manifests_ = {};
    for (const auto& [path, text] : texts_)
      manifests_.put(manifests::read_manifest_text(text, path, settings_.node_name));
  }

  void step(const json& step) {
    if (step.value("restart", false)) restart();
    sync::SyncInput input;
    for (const auto& event : step.at("events")) deliver(event.at(0), event.at(1));
    auto update = manifests_.take_update({});
    problems_.insert(update.problems.begin(), update.problems.end());
    input.changes = std::move(update.changes);
    // As with an API server, a Node that is deleted stays in force.
    if (input.changes.node && !*input.changes.node) input.changes.node.reset();
    input.changes.complete = true;
    if (step.contains("links")) input.links = use_links(step.at("links"));
    reconciler_->take(std::move(input));
    reconciler_->run(now_);
    const auto end = now_ + kSettle;
    while (reconciler_->due() <= end) {
      now_ = std::max(now_, reconciler_->due());
      failures_ = reconciler_->run(now_).failures;
      if (reconciler_->due() <= now_ && !reconciler_->reading() && !reconciler_->has_turns())
        throw std::logic_error("a busy loop");
    }
    now_ = end;
  }

  std::vector<std::string> lines() {
    std::vector<std::string> lines;
    for (const auto& problem : problems_)
      if (problem.severity == api::Severity::error)
        lines.push_back("problem " + to_string(problem));
    if (failures_ != 0) lines.push_back(fmt::format("failures {}", failures_));
    lines.insert(lines.end(), host_lines_.begin(), host_lines_.end());
    append(lines, virtual_server_lines());
    append(lines, member_lines());
    append(lines, address_lines());
    for (auto family : families_) append_rules(lines, family);
    return lines;
  }

 private:
  using Sorted = std::multiset<std::string>;

  static void append(std::vector<std::string>& lines, const Sorted& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  }

  // An object is a file of its own.
  void deliver(const std::string& type, const json& manifest) {
    const auto& meta = manifest.at("metadata");
    const auto path = fmt::format("{} {}/{}", manifest.at("kind").get<std::string>(),
                                  meta.value("namespace", ""), meta.at("name").get<std::string>());
    if (type == "DELETED") {
      manifests_.remove(path);
      texts_.erase(path);
    } else {
      texts_[path] = manifest.dump();
      manifests_.put(manifests::read_manifest_text(texts_[path], path, settings_.node_name));
    }
  }

  // What others left.
  void leave(const json& kernel) {
    check(links_.ensure_dummy(plan::kDummyLink).has_value());
    for (const auto& text : kernel.at("addresses")) {
      const netlink::AddressOp op{.add = true, .address = ip(text.get<std::string>())};
      check(links_.apply(plan::kDummyLink, {&op, 1}).front().has_value());
    }
    for (const auto& one : kernel.at("virtual_servers")) {
      const auto address = ip(one.at(1).get<std::string>());
      const netlink::VirtualServiceKey key{.address = address,
                                           .protocol = protocol_of(one.at(0).get<std::string>()),
                                           .port = one.at(2).get<std::uint16_t>()};
      std::vector<netlink::IpvsOp> ops;
      ops.push_back(netlink::AddService{{.key = key,
                                         .scheduler = one.at(3).get<std::string>(),
                                         .flags = one.at(4).get<std::uint32_t>(),
                                         .timeout = one.at(5).get<std::uint32_t>(),
                                         .netmask_bits = address_bits(address.family())}});
      for (const auto& server : one.at(6))
        ops.push_back(netlink::AddServer{
            key,
            {.key = {ip(server.at(0).get<std::string>()), server.at(1).get<std::uint16_t>()},
             .weight = server.at(2).get<std::uint32_t>()}});
      for (const auto& status : ipvs_.apply(ops)) check(status.has_value());
    }
  }

  static void check(bool fine) {
    if (!fine) throw std::runtime_error("the fakes refuse what others left");
  }

  static netlink::Protocol protocol_of(const std::string& name) {
    if (name == "tcp") return netlink::Protocol::tcp;
    return name == "udp" ? netlink::Protocol::udp : netlink::Protocol::sctp;
  }

  // What the links other than kube-ipvs0 are from now on.
  netlink::LinkEvents use_links(const json& links) {
    const auto before = links_.addresses();
    for (const auto& one : before)
      if (one.link != plan::kDummyLink) links_.remove_address(one);
    for (const auto& [name, addresses] : links.items()) {
      const auto known = links_.list_links().value();
      if (std::find(known.begin(), known.end(), name) == known.end()) links_.add_link(name, "veth");
      for (const auto& text : addresses) {
        const auto address = ip(text.get<std::string>());
        links_.add_address({name, address, address_bits(address.family())});
      }
    }
    return {.link_lost = false, .lost = {}, .others_changed = true, .overrun = false};
  }

  Sorted virtual_server_lines() {
    std::vector<test::ServiceTable> table;
    const auto services = ipvs_.list_services().value();
    for (const auto& service : services)
      table.push_back({service, ipvs_.list_servers(service.key).value()});
    Sorted lines;
    std::istringstream text(test::format_save(table));
    for (std::string line; std::getline(text, line);) {
      line.erase(line.find_last_not_of(' ') + 1);
      lines.insert(line);
    }
    return lines;
  }

  // As `ipset save` prints it: a host's network has no length.
  static std::string listed(const ipset::Element& element) {
    auto text = ipset::to_string(element);
    const auto* const one = std::get_if<ipset::IpPortNetElement>(&element);
    if (one != nullptr && one->net.length == address_bits(one->ip.family()))
      text.erase(text.rfind('/'));
    return text;
  }

  Sorted member_lines() {
    Sorted lines;
    for (auto family : families_)
      for (auto id : ipset::kSetIds) {
        const auto name = ipset::set_name(id, family);
        const auto set = sets_.list(name).value();
        if (!set) continue;
        for (const auto& element : set->elements)
          lines.insert(fmt::format("add {} {}", name, listed(element)));
      }
    return lines;
  }

  Sorted address_lines() const {
    Sorted lines;
    for (const auto& [link, address, length, on_dummy] : links_.addresses())
      if (plan::dummy_number(link))
        lines.insert(fmt::format("address {}/{}", address.to_string(), length));
    return lines;
  }

  void append_rules(std::vector<std::string>& lines, netlink::Family family) const {
    const auto* const command = family == netlink::Family::ipv4 ? "iptables" : "ip6tables";
    for (auto table : {ipset::Table::filter, ipset::Table::nat})
      for (const auto& [chain, rules] : rules_.lines(family, table))
        for (const auto& rule : rules)
          lines.push_back(
              fmt::format("{} {} -A {} {}", command, ipset::to_string(table), chain, rule));
  }

  Families families_;
  sync::ReconcilerSettings settings_;
  const std::vector<std::string> host_lines_;
  FakeIpvsTable ipvs_;
  FakeLinkTable links_;
  FakeSetTable sets_;
  FakeRuleTable rules_;
  FakeConntrackTable conntrack_;
  spdlog::logger logger_;
  std::unique_ptr<sync::Reconciler> reconciler_;
  std::map<std::string, std::string> texts_;  // of all objects that there are
  manifests::ManifestSet manifests_;
  std::set<api::Problem> problems_;
  std::size_t failures_ = 0;
  sync::TimePoint now_{std::chrono::hours(1)};
};

void print_states(const json& cluster) {
  Node node(cluster);
  std::string text;
  int number = 0;
  for (const auto& step : cluster.at("steps")) {
    node.step(step);
    text += fmt::format("= {} {}\n", cluster.at("name").get<std::string>(), number++);
    for (const auto& line : node.lines()) text += line + "\n";
  }
  std::cout << text;
}

}  // namespace
}  // namespace ipvsproxier::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: ipvs_proxier_state CLUSTERS\n";
    return 1;
  }
  try {
    std::ifstream clusters(argv[1]);
    if (!clusters) throw std::runtime_error(fmt::format("{}: cannot be opened", argv[1]));
    for (std::string line; std::getline(clusters, line);)
      ipvsproxier::test::print_states(nlohmann::json::parse(line));
  } catch (const std::exception& error) {
    std::cerr << "ipvs_proxier_state: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

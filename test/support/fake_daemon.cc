#include "test/support/fake_daemon.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include <fmt/format.h>
#include <spdlog/sinks/ostream_sink.h>

#include "proxier/plan/planner.h"

namespace ipvsproxier::test {

namespace {

// Of a reading back: more than the sets, the rules and the virtual services of any test here.
constexpr std::size_t kPartsAtMost = 1000;

std::string line_of(const netlink::VirtualService& service) {
  return fmt::format("virtual service {} {} flags {:#x} timeout {} bits {}", to_string(service.key),
                     service.scheduler.view(), service.flags, service.timeout,
                     service.netmask_bits);
}

std::string line_of(const netlink::VirtualServiceKey& service, const netlink::RealServer& server) {
  return fmt::format("{}: real server {} weight {} thresholds {}/{}", to_string(service),
                     to_string(server.key), server.weight, server.upper_threshold,
                     server.lower_threshold);
}

std::string line_of(const std::string& set, const ipset::Element& element) {
  return "element " + set + " " + ipset::to_string(element);
}

// A fake whose faults rest for as long as this lives.
class Resting {
 public:
  explicit Resting(FaultInjector& faults) : faults_(faults) { std::swap(faults_, resting_); }
  ~Resting() { std::swap(faults_, resting_); }
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;

 private:
  FaultInjector& faults_;
  FaultInjector resting_;
};

}  // namespace

FakeDaemon::FakeDaemon(FakeDaemonSettings settings)
    : logger_("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_)) {
  links.add_link("eth0", "veth");
  for (const auto& address : vector_node().addresses)
    if (address.link == "eth0") links.add_address(address);
  rules.has_set = [this](const auto& name) { return sets.exists(name); };
  settings_.node_name = "n1";
  settings_.options = std::move(settings.options);
  settings_.drain = settings.drain;
  settings_.remove_nft_leftovers = std::move(settings.remove_nft_leftovers);
  settings_.find_firewall_warnings = std::move(settings.find_firewall_warnings);
  settings_.find_untracked_ports = std::move(settings.find_untracked_ports);
  settings_.find_flow_rules = std::move(settings.find_flow_rules);
  settings_.flow_table = std::move(settings.flow_table);
  settings_.doubt_first_lists = std::move(settings.doubt_first_lists);
  settings_.host = std::move(settings.host);
  settings_.service_metrics = settings.service_metrics;
  settings_.most_waiting_removals = settings.most_waiting_removals;
  settings_.sync_period = settings.sync_period;
  settings_.input_waits = [this] { return input_waits; };
  settings_.publish_figures = [this](serve::FiguresPart part) {
    figures_.push_back(std::move(part));
  };
  restart();
}

void FakeDaemon::restart() {
  reconciler_ = std::make_unique<sync::Reconciler>(
      sync::Kernel{ipvs, links, sets, rules, conntrack}, settings_, logger_);
  node_ips_ = plan::NodeIps(settings_.options.differences.follow_node_ip, settings_.bind_address);
  new_process_ = true;
}

void FakeDaemon::restart(const plan::PlannerOptions& options) {
  settings_.options = options;
  restart();
}

sync::SyncReport FakeDaemon::run(const std::stop_token& stop) {
  auto report = reconciler_->run(now, stop);
  runs_ += report.reading ? 0 : 1;
  written_ += report.written;
  return report;
}

void FakeDaemon::hear(const model::ClusterState& next) {
  if (std::exchange(new_process_, false)) cluster_ = {};
  auto changes = changes_between(cluster_, next);
  changes.listed_again = std::exchange(listed_again_, false);
  cluster_.take(changes);
  reconciler_->take({.changes = std::move(changes), .links = {}});
  node_ips_.take(next.node);
  watch.expect(planned());
}

sync::SyncReport FakeDaemon::see(const model::ClusterState& next) {
  hear(next);
  return run_turns();
}

sync::SyncReport FakeDaemon::run_turns() {
  auto report = run();
  while (reconciler_->has_turns()) {
    auto next = run();
    next.written += report.written;
    next.flows += report.flows;
    next.repairs += report.repairs;
    report = std::move(next);
  }
  return report;
}

sync::SyncReport FakeDaemon::see_again(const model::ClusterState& next) {
  listed_again_ = true;
  return see(next);
}

sync::SyncReport FakeDaemon::see(netlink::LinkEvents events) {
  reconciler_->take({.changes = {}, .links = std::move(events)});
  watch.expect(planned());
  return run();
}

sync::SyncReport FakeDaemon::see_api_server(std::set<netlink::IpAddress> addresses) {
  sync::SyncInput input;
  input.api_server = std::move(addresses);
  reconciler_->take(std::move(input));
  return run();
}

sync::SyncReport FakeDaemon::see_filter_change() {
  sync::SyncInput input;
  input.filter_changed = true;
  reconciler_->take(std::move(input));
  return run();
}

std::optional<std::vector<serve::ServiceFigures>> FakeDaemon::scrape(
    std::chrono::milliseconds each) {
  using End = serve::FiguresPart::End;
  figures_.clear();
  reconciler_->read_figures();
  while (figures_.empty() || figures_.back().end == End::none) {
    if (reconciler_->due() > now) throw std::logic_error("figures that never come");
    run();
    now += each;
  }
  std::vector<serve::ServiceFigures> all;
  for (auto& part : figures_)
    std::move(part.figures.begin(), part.figures.end(), std::back_inserter(all));
  if (figures_.back().end != End::whole) return std::nullopt;
  return all;
}

sync::SyncReport FakeDaemon::wait(std::chrono::milliseconds time) {
  sync::SyncReport last;
  const auto end = now + time;
  std::size_t at_once = 0;
  bool was_due = false;
  while (reconciler_->due() <= end) {
    at_once = reconciler_->due() <= now ? at_once + 1 : 0;
    if (at_once > kPartsAtMost) throw std::logic_error("a busy loop of parts");
    now = std::max(now, reconciler_->due());
    auto report = run();
    // What surprised while the kernel was read back lets the next reading begin at once.
    const bool due_again =
        reconciler_->due() <= now && !reconciler_->reading() && !reconciler_->has_turns();
    if (due_again && std::exchange(was_due, true)) throw std::logic_error("a busy loop");
    was_due = due_again;
    if (!report.empty() || !report.programmed.empty() || !report.health.empty()) last = report;
  }
  now = end;
  return last;
}

void FakeDaemon::clear_faults() {
  for (auto* faults : {&ipvs.faults, &links.faults, &sets.faults, &rules.faults, &conntrack.faults})
    faults->clear();
}

std::size_t FakeDaemon::fault_hits() const {
  return ipvs.faults.hits() + links.faults.hits() + sets.faults.hits() + rules.faults.hits() +
         conntrack.faults.hits();
}

std::size_t FakeDaemon::writes() const {
  return ipvs.writes() + links.writes() + sets.writes() + rules.commits() + conntrack.writes();
}

std::map<netlink::RealServerKey, std::uint32_t> FakeDaemon::weights(
    const netlink::VirtualServiceKey& key) {
  std::map<netlink::RealServerKey, std::uint32_t> result;
  for (const auto& one : ipvs.servers(key)) result[one.server.key] = one.server.weight;
  return result;
}

bool FakeDaemon::is_bound(const std::string& address) const {
  return links.is_bound(ip(address));
}

plan::DesiredState FakeDaemon::planned() {
  const auto node =
      plan::node_info(settings_.node_name, cluster_.node, node_ips_, links.addresses());
  return plan::plan(cluster_, node, settings_.options).state;
}

std::set<std::string> FakeDaemon::dump() {
  const Resting conntrack_rests(conntrack.faults);
  std::set<std::string> lines;
  for (const auto& service : ipvs.services()) {
    lines.insert(line_of(service));
    for (const auto& one : ipvs.servers(service.key))
      lines.insert(line_of(service.key, one.server));
  }
  for (const auto& [link, address, length, on_dummy] : links.addresses())
    if (plan::dummy_number(link)) lines.insert("address " + address.to_string());
  for (const auto& route : links.local_routes()) lines.insert("local route " + route.to_string());
  for (auto family : settings_.options.families) {
    for (auto id : ipset::sets_of(settings_.options.packet_filter)) {
      const auto name = ipset::set_name(id, family);
      const auto set = sets.read(name).value();
      if (!set || (ipset::is_made_late(id) && set->elements.empty())) continue;
      lines.insert("set " + name);
      for (const auto& element : set->elements) lines.insert(line_of(name, element));
    }
    for (auto table : ipset::tables_of(settings_.options.packet_filter))
      for (const auto& [chain, list] : rules.lines(family, table))
        for (std::size_t i = 0; i < list.size(); ++i)
          lines.insert(fmt::format("rule {} {} {} {}: {}", netlink::to_string(family),
                                   ipset::to_string(table), chain, i, list[i]));
    const auto flows = conntrack.list({.family = family}).value();
    for (const auto& flow : flows) lines.insert(to_string(flow));
  }
  return lines;
}

// But for rules.
std::set<std::string> FakeDaemon::wanted() {
  const auto desired = planned();
  std::set<std::string> wanted;
  for (const auto& [key, planned] : desired.services) {
    wanted.insert(line_of(planned.service));
    for (std::size_t i = 0; i < planned.servers.size(); ++i)
      wanted.insert(line_of(key, planned.server(i)));
  }
  for (const auto& address : desired.addresses) wanted.insert("address " + address.to_string());
  for (const auto& [key, elements] : desired.sets) {
    if (ipset::is_made_late(key.id) && elements.empty()) continue;
    const auto name = ipset::set_name(key.id, key.family);
    wanted.insert("set " + name);
    for (const auto& element : elements) wanted.insert(line_of(name, element));
  }
  return wanted;
}

std::set<std::string> FakeDaemon::found() {
  auto found = dump();
  std::erase_if(found, [](const auto& line) {
    return line.substr(0, 5) == "rule " || line.substr(0, 8) == "UDP flow";
  });
  return found;
}

std::set<std::string> FakeDaemon::wrong_rules() {
  std::set<std::string> result;
  for (const auto& [family, parameters] : planned().rules)
    for (const auto& table : ipset::rules_for(settings_.options.packet_filter, family, parameters))
      if (!ipset::holds(rules.read(table), table))
        result.insert(fmt::format("rules of {} {}", netlink::to_string(family),
                                  ipset::to_string(table.table)));
  return result;
}

std::set<std::string> FakeDaemon::differences() {
  auto result = wrong_rules();
  const auto wants = wanted();
  const auto has = found();
  std::set_symmetric_difference(wants.begin(), wants.end(), has.begin(), has.end(),
                                std::inserter(result, result.end()));
  return result;
}

std::set<std::string> FakeDaemon::missing() {
  auto result = wrong_rules();
  const auto wants = wanted();
  const auto has = found();
  std::set_difference(wants.begin(), wants.end(), has.begin(), has.end(),
                      std::inserter(result, result.end()));
  return result;
}

}  // namespace ipvsproxier::test

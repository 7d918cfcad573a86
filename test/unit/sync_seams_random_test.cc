// Faults at every seam, by generation: while a random cluster changes, the operations of any kernel
// table fail with whatever errno they can give, happen without an answer, late or twice, and whole
// tables vanish and return, in any phase, several together.
//
// Held while they last: nothing is taken away that should stay and nothing shown unguarded
// (KernelWatch), and what no fault is about is as planned. After they end everything is, within two
// sync periods and without a restart.
//
// IPVS_PROXIER_SOAK_SECONDS and IPVS_PROXIER_SOAK_SEED say how long and with what luck.

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"
#include "test/support/fake_host.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Operation;
using test::FakeDaemon;
using test::FakeHost;
using test::Fault;
using test::FaultInjector;
using test::RandomCluster;

constexpr auto kTwoPeriods = 60s;      // of ReconcilerSettings
constexpr int kDaily = 10;             // histories
constexpr std::size_t kLeastHits = 5;  // of faults, a history, on average
enum Table : std::size_t { ipvs, links, sets, rules, conntrack, host };
using Tables = std::set<Table>;

// A kernel table as the reconciler meets it, and what it can answer but for success.
struct Seam {
  const char* name;
  FaultInjector& (*faults)(FakeDaemon&);
  Operation operation;
  std::vector<const char*> parts;  // of what operations say; "" is in all of them
  std::vector<int> errors;
};

// Of Linux 6.1. What any request over netlink can give besides: EPERM of its privilege check,
// ENOMEM and ENOBUFS of its buffers, EAGAIN and EINTR of receiving, ETIMEDOUT by us.
const std::vector<Seam>& seams() {
  static const std::vector<Seam> kSeams = {
      // net/netfilter/ipvs/ip_vs_ctl.c: ip_vs_genl_set_cmd, ip_vs_add_service, ip_vs_add_dest;
      // ENOENT
      // and EOPNOTSUPP also of net/netlink/genetlink.c where the module is gone.
      {"ipvs",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.ipvs.faults; },
       Operation::ipvs_service,
       {"", "add virtual service", "edit virtual service", "delete virtual service",
        "add real server", "edit real server", "delete real server", "list virtual services",
        "list real servers", "IPVS timeouts"},
       {EPERM, ENOMEM, ENOBUFS, EAGAIN, EINTR, ETIMEDOUT, EINVAL, EEXIST, ESRCH, ENOENT, ERANGE,
        EAFNOSUPPORT, EMSGSIZE, EOPNOTSUPP}},
      // net/core/rtnetlink.c, net/ipv4/devinet.c (EADDRNOTAVAIL, ENODEV), net/ipv6/addrconf.c
      // (EACCES
      // where IPv6 is disabled), net/ipv4/fib_frontend.c (ESRCH); EOPNOTSUPP without dummy links.
      {"links",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.links.faults; },
       Operation::address,
       {"", "create dummy link", "remove dummy link", "add address", "delete address",
        "add local route", "delete local route", "list addresses", "list local routes"},
       {EPERM, ENOMEM, ENOBUFS, EAGAIN, EINTR, ETIMEDOUT, EINVAL, EEXIST, ENODEV, EADDRNOTAVAIL,
        ESRCH, EACCES, EBUSY, EOPNOTSUPP}},
      // net/netfilter/ipset/ip_set_core.c: ENOENT, EBUSY, EEXIST, its own from 4097 on (here full,
      // IPSET_ERR_HASH_FULL); EINVAL also of net/netfilter/nfnetlink.c without the module,
      // ENOPROTOOPT of its socket option.
      {"sets",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.sets.faults; },
       Operation::set,
       {"", "make set", "add KUBE", "remove KUBE", "list set", "KUBE-LOAD-BALANCER",
        "KUBE-IPVS-IPS", "KUBE-NODE-PORT", "KUBE-6"},
       {EPERM, ENOMEM, ENOBUFS, EAGAIN, EINTR, ETIMEDOUT, ENOENT, EBUSY, EEXIST, 4352, ENOPROTOOPT,
        EMSGSIZE}},
      // net/ipv4/netfilter/ip_tables.c: get_entries, do_replace (EAGAIN: others wrote meanwhile),
      // check_target (ELOOP, ENOENT: no such match or set); ENOPROTOOPT without the module; EBUSY
      // while others have the xtables lock.
      {"rules",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.rules.faults; },
       Operation::rule,
       {"", "list IPv4", "list IPv6", "write IPv4 nat", "write IPv6 filter", "write"},
       {EPERM, ENOMEM, EAGAIN, EINTR, ENOENT, ENOPROTOOPT, EINVAL, ELOOP, EBUSY, EFAULT}},
      // net/netfilter/nf_conntrack_netlink.c: ctnetlink_del_conntrack, ctnetlink_dump_table.
      {"conntrack",
       [](FakeDaemon& daemon) -> FaultInjector& { return daemon.conntrack.faults; },
       Operation::generic,
       {"", "list UDP flows", "remove UDP flow"},
       {EPERM, ENOMEM, ENOBUFS, EAGAIN, EINTR, ETIMEDOUT, ENOENT, EBUSY, EINVAL, EOPNOTSUPP}},
  };
  return kSeams;
}

enum class Kind : std::uint8_t { change, fault, vanish, wait, end_faults, restart, calm };

// All that it does follows from its number, so that it does the same when others are left out.
struct Step {
  Kind kind = Kind::change;
  Table table = ipvs;  // of a fault, or what vanishes
  std::uint32_t luck = 0;
};

struct Episode {
  Table table = ipvs;
  std::string part;
  Fault fault;
  bool is_absent = false;  // nothing of the table works
  int percent = 100;
};

template <typename List>
const auto& pick(RandomCluster& luck, const List& list) {
  return list.at(static_cast<std::size_t>(luck.number(0, static_cast<int>(list.size()) - 1)));
}

// Sysctls are files here: they vanish, and do not fail otherwise.
Episode episode_of(const Step& step) {
  RandomCluster luck(step.luck);
  Episode episode;
  episode.table = step.table == host ? ipvs : step.table;
  const auto& seam = seams().at(episode.table);
  episode.part = pick(luck, seam.parts);
  episode.percent = pick(luck, std::array{5, 30, 100});
  const auto error = [&](int code) { return netlink::make_error(seam.operation, code, ""); };
  switch (luck.number(0, 9)) {
    case 0:
      episode.fault = {.error = error(ENOBUFS), .times = 1};
      break;
    case 1:
      episode.fault = {.error = error(ETIMEDOUT), .times = 1, .after = luck.number(1, 8)};
      break;
    case 2:
      episode.fault = {.error = {}, .times = 2};
      break;
    case 3:
      episode.fault = {.error = error(pick(luck, std::array{ENOENT, ENOPROTOOPT, EOPNOTSUPP}))};
      episode.is_absent = true;
      episode.part.clear();
      episode.percent = 100;
      break;
    default:
      episode.fault = {.error = error(pick(luck, seam.errors))};
      break;
  }
  return episode;
}

std::string to_text(const Step& step) {
  const char* const names[] = {"change",     "fault",   "vanish", "wait",
                               "end faults", "restart", "calm"};
  const auto* table = step.table == host ? "sysctls" : seams().at(step.table).name;
  auto text = fmt::format("{} {}", names[static_cast<std::size_t>(step.kind)], step.luck);
  if (step.kind == Kind::vanish) return text + ": " + table;
  if (step.kind != Kind::fault) return text;
  const auto episode = episode_of(step);
  const auto& fault = episode.fault;
  return text + fmt::format(": {} \"{}\": {}{}, done {} times, after {} others, {} %",
                            seams().at(episode.table).name, episode.part,
                            fault.error ? netlink::to_string(*fault.error) : "its own answer",
                            episode.is_absent ? " and all is gone" : "", fault.times, fault.after,
                            episode.percent);
}

std::vector<Step> random_steps(std::mt19937& random) {
  const auto below = [&](std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random);
  };
  // Few tables at a time: what concerns none of them is to be as planned.
  std::vector<Table> tables;
  for (auto count = 1 + below(3); count > 0; --count)
    tables.push_back(static_cast<Table>(below(host + 1)));
  std::vector<Step> steps;
  for (int i = 0; i < 30; ++i) {
    const auto percent = below(100);
    const auto kind = percent < 38   ? Kind::change
                      : percent < 60 ? Kind::fault
                      : percent < 72 ? Kind::vanish
                      : percent < 84 ? Kind::wait
                      : percent < 92 ? Kind::end_faults
                      : percent < 95 ? Kind::restart
                                     : Kind::calm;
    const auto table = tables.at(below(static_cast<std::uint32_t>(tables.size())));
    steps.push_back({kind, table, below(1'000'000)});
  }
  steps.push_back({Kind::calm, ipvs, 0});
  return steps;
}

class History {
 public:
  explicit History(std::uint32_t seed)
      : luck_(seed),
        cluster_(luck_.cluster(8)),
        daemon_({.drain = {}, .options = luck_.options(), .host = host_.setup()}) {
    for (const auto& seam : seams())
      seam.faults(daemon_).decide(
          [this, &seam](std::string_view operation) { return decide(seam, operation); });
    daemon_.see(cluster_);
    daemon_.wait(kTwoPeriods);
  }

  // What is wrong; "" if nothing is.
  std::string run(const std::vector<Step>& steps) {
    try {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        take(steps[i]);
        if (wrong_.empty() && !daemon_.watch.broken.empty()) wrong_ = daemon_.watch.broken.front();
        if (!wrong_.empty()) return fmt::format("step {}: {}", i, wrong_);
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  std::size_t hits() const { return daemon_.fault_hits(); }
  std::string log() const { return daemon_.log(); }

 private:
  std::optional<Fault> decide(const Seam& seam, std::string_view operation) {
    for (const auto& episode : episodes_)
      if (&seams().at(episode.table) == &seam &&
          operation.find(episode.part) != std::string_view::npos &&
          (episode.percent == 100 || fault_luck_.chance(episode.percent)))
        return episode.fault;
    return std::nullopt;
  }

  void take(const Step& step) {
    RandomCluster luck(step.luck);
    fault_luck_ = RandomCluster(~step.luck);
    switch (step.kind) {
      case Kind::change:
        track_flows(luck);
        luck.change(cluster_);
        daemon_.see(cluster_);
        break;
      case Kind::fault:
        return begin(episode_of(step));
      case Kind::vanish:
        vanish(step.table, luck);
        break;
      case Kind::wait:
        daemon_.wait(std::chrono::milliseconds(pick(luck, std::array{50, 200, 1500, 5000, 35000})));
        break;
      case Kind::end_faults:
        episodes_.clear();
        break;
      case Kind::restart:
        was_blind_ = !concerned_.empty();
        daemon_.restart();
        daemon_.see(cluster_);
        break;
      case Kind::calm:
        return calm();
    }
    if (luck.chance(50)) daemon_.wait(std::chrono::milliseconds(luck.number(0, 1500)));
    check_others();
  }

  void begin(const Episode& episode) {
    RandomCluster luck(0);
    if (episode.is_absent) vanish(episode.table, luck);
    concerned_.insert(episode.table);
    if (episode.fault.error && episode.fault.error->kind == netlink::ErrorKind::malformed)
      refused_.insert(episode.table);
    episodes_.push_back(episode);
  }

  // Others take all of it away; it can be made again.
  void vanish(Table table, RandomCluster& luck) {
    concerned_.insert(table);
    switch (table) {
      case ipvs:
        return daemon_.ipvs.vanish();
      case links:
        return lose_links(luck);
      case sets:
        return daemon_.sets.vanish(false);
      case rules:  // a set that rules name cannot be destroyed
        daemon_.rules.vanish();
        if (luck.chance(50)) daemon_.sets.vanish(true);
        concerned_.insert(sets);
        return;
      case conntrack:
        return daemon_.conntrack.vanish();
      case host:
        if (luck.chance(50))
          host_.remove("sys/net");
        else
          host_.reset();
        return;
    }
  }

  // With or without a notification.
  void lose_links(RandomCluster& luck) {
    netlink::LinkEvents events;
    const bool whole = luck.chance(50);
    for (const auto& one : daemon_.links.addresses()) {
      if (!plan::dummy_number(one.link)) continue;
      events.lost.insert(one.address);
      if (whole)
        daemon_.links.remove_link(one.link);
      else
        daemon_.links.remove_address(one);
    }
    const auto routes = daemon_.links.local_routes();
    for (const auto& route : routes) {
      events.lost.insert(route);
      daemon_.links.remove_local_route(route);
    }
    events.link_lost = whole;
    events.overrun = luck.chance(20);
    if (luck.chance(60)) daemon_.see(events);
  }

  // Clients of some UDP ports as they are now.
  void track_flows(RandomCluster& luck) {
    for (const auto& [key, planned] : daemon_.planned().services)
      if (key.protocol == netlink::Protocol::udp && luck.chance(50))
        for (const auto& [server, weight] : daemon_.weights(key)) {
          const auto client =
              key.address.family() == netlink::Family::ipv4 ? "10.1.0.1" : "fd00:1::1";
          daemon_.conntrack.track({test::ip(client), ++client_port_}, {key.address, key.port},
                                  {server.address, server.port});
        }
  }

  // What no fault is about is as planned, at once.
  void check_others() {
    if (was_blind_) return;
    for (const auto& line : daemon_.missing())
      if (!may_lack(line)) wrong_ = "it lacks " + line;
  }

  bool concerned(Tables tables) const {
    return std::any_of(tables.begin(), tables.end(),
                       [this](Table table) { return concerned_.contains(table); });
  }

  // A virtual service that the kernel has keeps to its plan whatever becomes of its guards; a new
  // one waits for them, an address for all before it, and rules are narrowed when what they guarded
  // is gone.
  bool may_lack(const std::string& line) const {
    if (line.starts_with("element ") || line.starts_with("set ")) return concerned({sets});
    if (line.starts_with("rules ")) return concerned({ipvs, links, sets, rules});
    if (line.starts_with("address ")) return concerned({ipvs, links, sets, rules});
    if (concerned({ipvs})) return true;
    return concerned({sets, rules}) && !has_service_of(line);
  }

  // "virtual service KEY SCHEDULER ...", "KEY: real server ...".
  bool has_service_of(const std::string& line) const {
    const auto services = daemon_.ipvs.services();
    return std::any_of(services.begin(), services.end(), [&](const auto& service) {
      const auto key = to_string(service.key);
      return line.starts_with("virtual service " + key + " ") || line.starts_with(key + ": ");
    });
  }

  void calm() {
    episodes_.clear();
    host_put_back();
    daemon_.wait(kTwoPeriods);
    was_blind_ = false;
    // What was refused for what it is, as it seemed, is tried again ever more rarely.
    concerned_ = std::exchange(refused_, {});
    check_others();
    if (!concerned_.empty()) daemon_.wait(6min - kTwoPeriods);
    concerned_.clear();
    if (const auto left = daemon_.differences(); wrong_.empty() && !left.empty())
      wrong_ =
          fmt::format("{} differences after all faults, the first: {}", left.size(), *left.begin());
    if (wrong_.empty() && host_.get("sys/net/ipv4/vs/conntrack") != "1") wrong_ = "sysctl";
    if (wrong_.empty()) check_flows();
    const auto writes = daemon_.writes();
    daemon_.wait(31s);
    if (wrong_.empty() && daemon_.writes() != writes) wrong_ = "it goes on writing";
  }

  void host_put_back() {
    if (host_.get("sys/net/ipv4/ip_forward").empty()) host_.reset();
  }

  void check_flows() {
    const auto planned = daemon_.planned();
    for (const auto family : netlink::kFamilies) {
      const auto flows = daemon_.conntrack.list({.family = family});
      for (const auto& flow : flows.value()) {
        const auto found = planned.services.find(
            {flow.destination.address, netlink::Protocol::udp, flow.destination.port});
        if (found != planned.services.end() &&
            !found->second.servers.contains(
                netlink::RealServerKey{flow.server.address, flow.server.port}))
          wrong_ = "left: " + to_string(flow);
      }
    }
  }

  FakeHost host_;
  RandomCluster luck_;
  RandomCluster fault_luck_{0};  // of the step
  model::ClusterState cluster_;
  FakeDaemon daemon_;
  std::vector<Episode> episodes_;
  Tables concerned_;        // by faults, or changed by others, since all was right
  Tables refused_;          // of these, operations for what they are about, as it seemed
  bool was_blind_ = false;  // a process that began meanwhile
  std::uint16_t client_port_ = 1000;
  std::string wrong_;
};

TEST_CASE("random faults at every seam cost what they are about, and end with them", "[random]") {
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds time(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  auto seed = static_cast<std::uint32_t>(test::environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  std::size_t hits = 0;
  std::size_t histories = 0;
  for (int n = 0; n < kDaily || std::chrono::steady_clock::now() - begin < time; ++n, ++seed) {
    std::mt19937 random(seed);
    auto steps = random_steps(random);
    History history(seed);
    auto wrong = history.run(steps);
    hits += history.hits();
    ++histories;
    if (wrong.empty()) continue;
    steps = test::shrink(steps, [&](const auto& some) { return !History(seed).run(some).empty(); });
    History again(seed);
    std::string story = fmt::format("IPVS_PROXIER_SOAK_SEED={}: {}\n", seed, again.run(steps));
    for (const auto& step : steps) story += "  " + to_text(step) + "\n";
    FAIL_CHECK(story << again.log());
    break;
  }
  CHECK(hits > kLeastHits * histories);
}

}  // namespace
}  // namespace ipvsproxier::sync

// Debian's keepalived beside the daemon: both change virtual services all the time, and each keeps
// its own. IPVS_PROXIER_SOAK_SECONDS (45) and IPVS_PROXIER_SOAK_SEED (1) say how long and with what
// luck.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/kernel/packet_filter.h"
#include "test/support/ip.h"
#include "test/support/paths.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

// The virtual servers that keepalived is told of: a port, and weights of real servers by pod; those
// of port kDeadPort fail its checks, so that it leaves them out.
struct TheirServers {
  std::map<std::uint16_t, std::map<int, int>> by_port;
  bool with_dead = false;
};

constexpr const char* kTheirVip = "192.0.2.200";
constexpr const char* kTheirScheduler = "-s wlc";  // ours have another one
constexpr std::uint16_t kTheirStream = 90;         // always the same, with connections through it
constexpr std::uint16_t kDeadPort = 7;

std::string checked_server(const std::string& address, std::uint16_t port, int weight) {
  return fmt::format(
      "  real_server {} {} {{\n    weight {}\n    TCP_CHECK {{\n"
      "      connect_timeout 2\n      retry 0\n    }}\n  }}\n",
      address, port, weight);
}

class Keepalived {
 public:
  explicit Keepalived(const Cluster& cluster) : cluster_(cluster) {
    cluster_.netns().ip(
        "link add site0 type dummy\nlink set site0 up\naddr add 10.77.0.1/24 dev site0\n");
  }
  Keepalived(const Keepalived&) = delete;
  Keepalived& operator=(const Keepalived&) = delete;
  ~Keepalived() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

  void start(const TheirServers& servers) {
    write(servers);
    pid_ = cluster_.netns().inside([&] {
      return std::stoi(shell(fmt::format(
          "cd {0} && {{ keepalived -n -l -f keepalived.conf --pid={0}/main --vrrp_pid={0}/vrrp "
          "--checkers_pid={0}/checkers </dev/null >>log 2>&1 & echo $!; }}",
          dir_.path().string())));
    });
    REQUIRE(agrees(servers));
  }
  void reload(const TheirServers& servers) {
    write(servers);
    ::kill(pid_, SIGHUP);
    REQUIRE(agrees(servers));
  }
  // With all that it has in the kernel. A Service that claims its address may have it soon.
  void stop() {
    ::kill(pid_, SIGTERM);
    pid_ = -1;
    REQUIRE(eventually([&] { return found().find(kTheirScheduler) == std::string::npos; }));
  }

  // Whether the kernel has, soon, what keepalived was told.
  bool agrees(const TheirServers& servers) const {
    const auto wanted = lines_of(servers);
    const bool right = eventually([&] { return found() == wanted; });
    INFO("wanted:\n" << wanted << "found:\n" << found() << log());
    CHECK(right);
    return right;
  }
  // Now.
  std::string found() const {
    return cluster_.netns().inside([] {
      return shell(fmt::format("ipvsadm-save -n | grep -F ' {}:' | LC_ALL=C sort", kTheirVip) +
                   "; true");
    });
  }
  // Once it is the master.
  bool has_vip() const {
    return cluster_.netns().inside(
        [] { return shell("ip -o addr show dev site0").find(kTheirVip) != std::string::npos; });
  }
  std::string lines_of(const TheirServers& servers) const {
    std::vector<std::string> lines;
    for (const auto& [port, pods] : servers.by_port) {
      lines.push_back(fmt::format("-A -t {}:{} {}\n", kTheirVip, port, kTheirScheduler));
      for (const auto& [pod, weight] : pods)
        lines.push_back(fmt::format("-a -t {}:{} -r {}:{} -m -w {}\n", kTheirVip, port,
                                    cluster_.local(pod).v4.to_string(), target_of(port), weight));
    }
    std::ranges::sort(lines);
    std::string text;
    for (const auto& line : lines) text += line;
    return text;
  }
  std::string log() const {
    std::ifstream file(dir_.path() / "log");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.substr(text.size() > 3000 ? text.size() - 3000 : 0);
  }

 private:
  static std::uint16_t target_of(std::uint16_t port) {
    return port == kTheirStream ? kStreamPort : kEchoPort;
  }

  void write(const TheirServers& servers) const {
    std::ofstream file(dir_.path() / "keepalived.conf");
    file << fmt::format(
        "global_defs {{\n  script_user root\n}}\nvrrp_instance site {{\n  state MASTER\n"
        "  interface site0\n  virtual_router_id 51\n  priority 200\n  advert_int 1\n"
        "  unicast_src_ip 10.77.0.1\n  unicast_peer {{\n    10.77.0.2\n  }}\n"
        "  virtual_ipaddress {{\n    {}/32 dev site0\n  }}\n}}\n",
        kTheirVip);
    for (const auto& [port, pods] : servers.by_port) {
      file << fmt::format(
          "virtual_server {} {} {{\n  delay_loop 1\n  lb_algo wlc\n  lb_kind NAT\n"
          "  protocol TCP\n",
          kTheirVip, port);
      for (const auto& [pod, weight] : pods)
        file << checked_server(cluster_.local(pod).v4.to_string(), target_of(port), weight);
      if (servers.with_dead) file << checked_server(cluster_.local(1).v4.to_string(), kDeadPort, 1);
      file << "}\n";
    }
  }

  const Cluster& cluster_;
  TempDir dir_;
  pid_t pid_ = -1;
};

std::string neighbours_configuration() {
  return std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges +
         "\"\nipvs: {syncPeriod: 1s}\nnodePortAddresses: [10.200.0.0/24]\n";
}

ServiceManifest our_service(const Cluster& cluster, int number, bool claims) {
  ServiceManifest service{.name = "web-" + std::to_string(number),
                          .cluster_ips = {"10.96.0." + std::to_string(10 + number)},
                          .ports = {{.name = "echo", .port = 80, .target = kEchoPort},
                                    {.name = "stream", .port = 90, .target = kStreamPort}}};
  if (claims) service.spec = fmt::format("externalIPs: [{}]", kTheirVip);
  for (int pod = 1; pod <= 2; ++pod)
    service.endpoints.push_back({cluster.local(pod).v4, kNodeName});
  return service;
}

// One virtual server of each, whose connections last; others come and go.
class Neighbourhood {
 public:
  explicit Neighbourhood(std::uint32_t seed)
      : random_(seed), cluster_({.local_pods = 2, .remote_pods = 0}), keepalived_(cluster_) {
    manifests_.configure(neighbours_configuration());
    manifests_.put(our_service(cluster_, 0, false));
    auto flags = manifests_.flags();
    socket_ = (dir_.path() / "control").string();
    flags.push_back("--control-socket=" + socket_);
    daemon_.emplace(cluster_.netns(), flags);
    theirs_.by_port[kTheirStream] = {{1, 3}};
  }

  void begin() {
    keepalived_.start(theirs_);
    daemon_->start();
    REQUIRE(daemon_->logs("synced: "));
    REQUIRE(eventually(
        [&] { return cluster_.client().ask(Protocol::tcp, ip("10.96.0.10"), 80).has_value(); }));
    REQUIRE(eventually([&] { return keepalived_.has_vip(); }));
    connections_.open(cluster_.client(), {ip(kTheirVip), kTheirStream});
    connections_.open(cluster_.client(), {ip("10.96.0.10"), 90});
    connections_.run();
  }

  // One change by somebody, and a look at all.
  void step() {
    const int kind = random_.number(0, 9);
    if (kind < 4) {
      change_theirs();
      keepalived_.reload(theirs_);
    } else if (kind < 8) {
      change_ours();
    } else {
      restart_ours(kind == 9);
    }
    CHECK(keepalived_.agrees(theirs_));
    check_claims();
  }

  // For longer than two readings of the kernel take, theirs is as it was told.
  void check_quiet() {
    const auto wanted = keepalived_.lines_of(theirs_);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
    while (std::chrono::steady_clock::now() < until) REQUIRE(keepalived_.found() == wanted);
    CHECK(connections_.moves_on() == "");
    CHECK(accepted() >= told_accepted_);  // nobody has made it anew
    told_accepted_ = accepted();
    CHECK(told_accepted_ > 0);
    INFO(daemon_->log());
    CHECK(daemon_->log().find(fmt::format("delete virtual service {}:", kTheirVip)) ==
          std::string::npos);
  }

  void check_listed() {
    const auto text = ctl("list");
    INFO(text);
    CHECK(text.find(fmt::format("TCP  {}:{} wlc", kTheirVip, kTheirStream)) != std::string::npos);
    CHECK(text.find(" foreign\n") != std::string::npos);
    CHECK(ctl("list -o json").find("\"foreign\": true") != std::string::npos);
    // What a Service does not get because of it is wrong, and no difference.
    std::istringstream lines(ctl("diff"));
    for (std::string line; std::getline(lines, line);)
      CHECK((line.starts_with("wrong: ") || line.find(kTheirVip) == std::string::npos));
  }

  // With keepalived gone a Service that asks for its address gets it, and not before.
  void end() {
    manifests_.put(our_service(cluster_, 7, true));
    REQUIRE(daemon_->logs("another program of this node has the virtual service"));
    check_listed();
    connections_.stop();
    CHECK(keepalived_.agrees(theirs_));
    keepalived_.stop();
    const netlink::VirtualServiceKey key{ip(kTheirVip), Protocol::tcp, 80};
    IpvsView view(cluster_.netns());
    CHECK(eventually([&] { return view.weight(key, {cluster_.local(1).v4, kEchoPort}) == 1U; }));
    INFO(daemon_->log());
    CHECK(daemon_->terminate() == 0);
  }

 private:
  void change_theirs() {
    auto& ports = theirs_.by_port;
    for (const std::uint16_t port : {std::uint16_t{80}, std::uint16_t{81}, std::uint16_t{443}}) {
      if (!random_.chance(50)) continue;
      ports.erase(port);
      if (!random_.chance(60)) continue;
      for (int pod = 1; pod <= 2; ++pod)
        if (pod == 1 || random_.chance(70)) ports[port][pod] = random_.number(1, 9);
    }
    theirs_.with_dead = random_.chance(30);
  }

  void change_ours() {
    const int number = random_.number(1, 5);
    if (ours_.contains(number) && random_.chance(40)) {
      ours_.erase(number);
      manifests_.remove("web-" + std::to_string(number));
    } else {
      ours_.insert(number);
      manifests_.put(our_service(cluster_, number, random_.chance(50)));
    }
  }

  void restart_ours(bool hard) {
    if (hard)
      daemon_->kill();
    else
      CHECK(daemon_->terminate() == 0);
    if (random_.chance(50)) change_ours();
    daemon_->start();
    CHECK(eventually([&] {
      const auto text = ctl("status");
      const auto at = text.find("\nready ");
      return at != std::string::npos && text.find(" yes\n", at) < text.find('\n', at + 1);
    }));
  }

  // Nothing of ours is at their address, whatever Services ask for.
  void check_claims() {
    const auto bound = cluster_.netns().inside([] {
      return shell("ip -o addr show dev kube-ipvs0") +
             shell(on_nftables() ? "nft list table ip kube-ipvs"
                                 : "ipset list KUBE-IPVS-IPS; ipset list KUBE-EXTERNAL-IP");
    });
    INFO(bound << daemon_->log());
    CHECK(bound.find(kTheirVip) == std::string::npos);
  }

  // Connections that their lasting virtual server has ever had.
  std::size_t accepted() const {
    return cluster_.netns().inside([] {
      return std::stoul(
          shell(fmt::format("ipvsadm -Ln --stats --exact | awk '$2 == \"{}:{}\" "
                            "{{ print $3 }}'",
                            kTheirVip, kTheirStream)));
    });
  }

  std::string ctl(const std::string& words) const {
    return cluster_.netns().inside([&] {
      return shell(ipvsctl_word() + " " + words + " --control-socket " + socket_ + "; true");
    });
  }

  RandomCluster random_;
  Cluster cluster_;
  Manifests manifests_;
  TempDir dir_;
  std::string socket_;
  TheirServers theirs_;
  std::set<int> ours_;  // that come and go
  Keepalived keepalived_;
  std::optional<Daemon> daemon_;
  LongConnections connections_;
  std::size_t told_accepted_ = 0;
};

TEST_CASE("kernel: neighbours: keepalived keeps its virtual servers, connections and counts",
          "[neighbours]") {
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds time(environment_number("IPVS_PROXIER_SOAK_SECONDS", 45));
  Neighbourhood node(static_cast<std::uint32_t>(environment_number("IPVS_PROXIER_SOAK_SEED", 1)));
  node.begin();
  for (int steps = 1; std::chrono::steady_clock::now() - begin < time; ++steps) {
    node.step();
    if (steps % 5 == 0) node.check_quiet();
  }
  node.check_quiet();
  node.end();
}

}  // namespace
}  // namespace ipvsproxier::test

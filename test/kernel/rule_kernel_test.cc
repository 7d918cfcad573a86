#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_iptc.h"
#include "ipset/rules/xtables_lock.h"
#include "test/contract/rule_contract.h"
#include "test/kernel/netns.h"
#include "test/reference_rules.h"

namespace ipvsproxier::test {
namespace {

using ipset::IptcRuleTable;
using ipset::IptcSettings;
using ipset::rules_for;
using ipset::Table;
using netlink::ErrorKind;
using netlink::Family;

std::string program(Family family) {
  return family == Family::ipv4 ? "iptables-legacy" : "ip6tables-legacy";
}

IptcSettings settings() {
  return {.load_module = [](const std::string& module) { shell("modprobe " + module); }};
}

// The sets of the catalogue, made by the ipset command in one go.
void make_sets() {
  std::string lines;
  for (const auto family : netlink::kFamilies)
    for (const auto id : ipset::kIpSetIds) {
      const auto spec = set_spec(id, family);
      lines += fmt::format("create {} {} {}\n", spec.name, to_string(spec.kind),
                           spec.kind == ipset::SetKind::bitmap_port ? "range 0-65535"
                           : family == Family::ipv4                 ? "family inet"
                                                                    : "family inet6");
    }
  shell("ipset restore <<'END'\n" + lines + "END\n");
}

// In the order in which the files of test/reference have them: filter, then nat.
std::string saved(Family family) {
  return shell(program(family) + "-save -t filter; " + program(family) + "-save -t nat");
}

class KernelRuleWorld : public RuleWorld {
 public:
  KernelRuleWorld() : table_(settings()) { make_sets(); }

  ipset::RuleTable& table() override { return table_; }
  std::uint64_t commits() override { return table_.commits(); }
  void destroy_set(const std::string& name) override { shell("ipset destroy " + name); }
  void edit(Family family, Table table, const std::string& words) override {
    shell(fmt::format("{} -t {} {}", program(family), to_string(table), words));
  }
  std::map<std::string, std::vector<std::string>> lines(Family family, Table table) override {
    const std::string name(to_string(table));
    auto chains = parse_saved_rules(shell(program(family) + "-save -t " + name))[name];
    for (auto& [chain, lines] : chains)
      for (auto& line : lines) line.erase(0, 4 + chain.size());
    return chains;
  }
  void pass_packet(Family family) override {
    shell(family == Family::ipv4 ? "bash -c 'echo > /dev/udp/127.0.0.1/9'"
                                 : "bash -c 'echo > /dev/udp/::1/9'");
  }
  std::uint64_t packets(Family family, Table table, const std::string& chain,
                        std::size_t index) override {
    std::istringstream line(shell(fmt::format("{} -t {} -v -x -n -L {} {}", program(family),
                                              to_string(table), chain, index + 1)));
    std::uint64_t packets = 0;
    line >> packets;
    return packets;
  }

 private:
  FreshNetns netns_;
  IptcRuleTable table_;
};

TEST_CASE("libiptc keeps the contract of rule tables for IPv4") {
  KernelRuleWorld world;
  check_rule_contract(world, Family::ipv4);
}

TEST_CASE("libiptc keeps the contract of rule tables for IPv6") {
  KernelRuleWorld world;
  check_rule_contract(world, Family::ipv6);
}

TEST_CASE("what we write is what kube-proxy's state prints as") {
  for (const auto& configuration : reference_configurations()) {
    CAPTURE(configuration.name, to_string(configuration.family));
    const FreshNetns netns;
    make_sets();
    IptcRuleTable table(settings());
    for (const auto& rules : rules_for(configuration.family, configuration.parameters)) {
      const auto applied = table.apply(rules);
      if (!applied) FAIL(to_string(applied.error()));
      CHECK(*applied);
    }
    CHECK(parse_saved_rules(saved(configuration.family)) ==
          parse_saved_rules(reference_rules_text(configuration)));
  }
}

TEST_CASE("rules that kube-proxy's own tool wrote are taken over without a write") {
  for (const auto& configuration : reference_configurations()) {
    CAPTURE(configuration.name, to_string(configuration.family));
    const FreshNetns netns;
    make_sets();
    shell(program(configuration.family) + "-restore <<'END'\n" +
          reference_rules_text(configuration) + "END\n");
    IptcRuleTable table(settings());
    for (const auto& rules : rules_for(configuration.family, configuration.parameters)) {
      const auto listed = table.list(rules);
      REQUIRE(listed);
      const auto expected = printed_rules({rules});
      const auto found = printed_rules({*listed});
      for (const auto& [chain, lines] : found.begin()->second) {
        CAPTURE(chain);
        CHECK(lines == expected.begin()->second.at(chain));
      }
      const auto applied = table.apply(rules);
      if (!applied) FAIL(to_string(applied.error()));
      CHECK_FALSE(*applied);
    }
    CHECK(table.commits() == 0);
  }
}

TEST_CASE("a lock that another program holds ends in a timeout, and nothing is written") {
  const FreshNetns netns;
  make_sets();
  const std::string path = "/run/xtables-test.lock";
  const auto held = ipset::XtablesLock::acquire(path, std::chrono::milliseconds(0));
  REQUIRE(held);
  auto impatient = settings();
  impatient.lock_path = path;
  impatient.lock_wait = std::chrono::milliseconds(30);
  IptcRuleTable table(impatient);
  const auto applied = table.apply(rules_for(Family::ipv4, {}).at(0));
  REQUIRE_FALSE(applied);
  CHECK(applied.error().kind == ErrorKind::busy);
  CHECK_THAT(applied.error().where, Catch::Contains(path) && Catch::Contains("IPv4 table filter"));
  CHECK(table.commits() == 0);
}

TEST_CASE("rules that a held lock kept from being written are there once afterwards", "[item-4]") {
  const FreshNetns netns;
  make_sets();
  auto impatient = settings();
  impatient.lock_path = "/run/xtables-test.lock";
  impatient.lock_wait = std::chrono::milliseconds(30);
  IptcRuleTable table(impatient);
  ipset::RuleParameters parameters;
  parameters.non_empty.insert(ipset::kSetIds.begin(), ipset::kSetIds.end());
  const auto tables = rules_for(Family::ipv4, parameters);
  for (const auto& desired : tables) REQUIRE(table.apply(desired));
  auto whole = parse_saved_rules(saved(Family::ipv4));
  // One chain is gone, one empty, one has too much; the others are as they are to be.
  shell(
      "iptables-legacy -t nat -F KUBE-SERVICES; iptables-legacy -t nat -A KUBE-MARK-MASQ -j ACCEPT;"
      " iptables-legacy -D FORWARD -j KUBE-FORWARD -m comment --comment"
      " 'kubernetes forwarding rules'; iptables-legacy -F KUBE-FORWARD;"
      " iptables-legacy -X KUBE-FORWARD");
  const auto damaged = parse_saved_rules(saved(Family::ipv4));
  {
    const auto held =
        ipset::XtablesLock::acquire(impatient.lock_path, std::chrono::milliseconds(0));
    REQUIRE(held);
    for (const auto& desired : tables) CHECK_FALSE(table.apply(desired));
    CHECK(parse_saved_rules(saved(Family::ipv4)) == damaged);
  }
  for (const auto& desired : tables) {
    REQUIRE(table.apply(desired));
    CHECK(*table.list(desired) == desired);
  }
  auto repaired = parse_saved_rules(saved(Family::ipv4));
  CHECK(repaired != damaged);
  // The jump comes back in front.
  for (auto* rules : {&repaired, &whole}) {
    auto& forward = (*rules)["filter"]["FORWARD"];
    std::sort(forward.begin(), forward.end());
  }
  CHECK(repaired == whole);
}

TEST_CASE("a table of others is read if it is small enough") {
  const Netns netns;
  const auto error = netns.inside([] {
    shell("for i in 1 2 3 4 5 6; do iptables-legacy -A INPUT -s 192.0.2.$i -j ACCEPT; done");
    IptcRuleTable rules(settings());
    const auto whole = rules.read(Family::ipv4, Table::filter, 20);
    REQUIRE(whole);
    REQUIRE(*whole);
    CHECK((*whole)->chains.at("INPUT").size() == 6);
    const auto refused = rules.read(Family::ipv4, Table::filter, 5);
    return refused ? netlink::Error{} : refused.error();
  });
  CHECK(error.sys_errno == E2BIG);
  CHECK(error.where == "IPv4 table filter has more than 5 rules");
}

TEST_CASE("a set of the other family is an error that names it") {
  const FreshNetns netns;
  make_sets();
  const auto name = set_name(ipset::SetId::cluster_ip, Family::ipv4);
  shell("ipset destroy " + name + "; ipset create " + name + " hash:ip,port family inet6");
  IptcRuleTable table(settings());
  const auto applied = table.apply(rules_for(Family::ipv4, {}).at(0));
  REQUIRE_FALSE(applied);
  CHECK(applied.error().kind == ErrorKind::malformed);
  CHECK_THAT(applied.error().where, Catch::Contains(name));
}

TEST_CASE("families are usable here") {
  const FreshNetns netns;
  IptcRuleTable table(settings());
  for (const auto family : netlink::kFamilies) CHECK(table.family_usable(family));
}

// What `fn` says to a process without privileges.
template <typename Fn>
std::string unprivileged(Fn fn) {
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const auto child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const std::string text = fn();
    const auto written = write(pipe_fds[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(pipe_fds[1]);
  std::string text(1000, ' ');
  const auto got = read(pipe_fds[0], text.data(), text.size());
  close(pipe_fds[0]);
  waitpid(child, nullptr, 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

TEST_CASE("a missing privilege is named") {
  const FreshNetns netns;
  const auto text = unprivileged([] {
    const auto usable = IptcRuleTable(settings()).family_usable(Family::ipv4);
    return usable ? std::string("usable") : to_string(usable.error());
  });
  CHECK_THAT(text, Catch::Contains("CAP_NET_ADMIN") && Catch::Contains("denied"));
}

// The kernel loads extensions by running this program.
class WithoutModuleLoading {
 public:
  WithoutModuleLoading() : previous_(shell("cat /proc/sys/kernel/modprobe")) {
    shell("echo /bin/false > /proc/sys/kernel/modprobe");
  }
  ~WithoutModuleLoading() { std::ofstream("/proc/sys/kernel/modprobe") << previous_; }

 private:
  std::string previous_;
};

TEST_CASE("an extension that the kernel lacks is named with its module") {
  const FreshNetns netns;
  make_sets();
  IptcRuleTable table(settings());
  REQUIRE(table.family_usable(Family::ipv4));
  shell("rmmod xt_physdev 2>&1 || ! grep -q ^xt_physdev /proc/modules");
  const WithoutModuleLoading without;
  const auto applied =
      table.apply(rules_for(Family::ipv4, {.non_empty = {ipset::SetId::external_ip}}).at(1));
  REQUIRE_FALSE(applied);
  CHECK(applied.error().kind == ErrorKind::missing);
  CHECK_THAT(applied.error().where,
             Catch::Contains("match physdev") && Catch::Contains("xt_physdev"));
  CHECK_THAT(applied.error().where, !Catch::Contains("xt_set"));
}

}  // namespace
}  // namespace ipvsproxier::test

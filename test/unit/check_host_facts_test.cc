#include "proxier/check/host_facts.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "proxier/check/filter_drops.h"
#include "proxier/check/listeners.h"
#include "test/unit/check_nodes.h"

namespace ipvsproxier::check {
namespace {

using netlink::IpAddress;

IpAddress address(const char* text) {
  return *IpAddress::parse(text);
}

TEST_CASE("a host with everything has facts that speak for it") {
  const test::HostFolders host;
  const auto facts = read_host_facts({}, host.paths());
  CHECK(facts.release == "6.1.0-test");
  CHECK(facts.capabilities.net_admin);
  CHECK(facts.has_ipv6);
  CHECK_FALSE(facts.ipv6_disabled);
  CHECK_FALSE(facts.has_nf_tables);
  CHECK(facts.strict_links.empty());
  for (const auto& [name, fact] : facts.modules) {
    CAPTURE(name);
    // Of older kernels, and of a packet filter that this host does not have.
    const bool is_missing = name.ends_with("t_MASQUERADE") != (name == "xt_MASQUERADE") ||
                            name.starts_with("nft_") || name == "nf_tables";
    CHECK(fact.state == (is_missing ? ModuleState::missing : ModuleState::loadable));
  }
}

TEST_CASE("an empty host has no facts, and nothing breaks") {
  const test::TempDir folder;
  const HostPaths paths{.proc = folder.path() / "a",
                        .sys = folder.path() / "b",
                        .modules = folder.path() / "c",
                        .boot = folder.path() / "d",
                        .etc = folder.path() / "e",
                        .usr_lib = folder.path() / "f",
                        .run = folder.path() / "g",
                        .docker_swarm = folder.path() / "h"};
  const auto facts = read_host_facts({}, paths);
  CHECK(facts.release.empty());
  CHECK_FALSE(facts.capabilities.net_raw);
  CHECK(facts.modules.at("ip_vs").state == ModuleState::unknown);
}

TEST_CASE("IPVS that will be loaded brings IPv6 with it") {
  test::HostFolders host;
  host.remove("proc/net/if_inet6");
  CHECK_FALSE(read_host_facts({}, host.paths()).has_ipv6);
  host.add_module("ipv6");
  host.add_module("ip_vs", {"ipv6"});
  CHECK(read_host_facts({}, host.paths()).has_ipv6);
  host.remove("modules/6.1.0-test/kernel/ipv6.ko.xz");
  const auto facts = read_host_facts({}, host.paths());
  CHECK_FALSE(facts.has_ipv6);
  CHECK(facts.modules.at("ip_vs").state == ModuleState::missing);
}

TEST_CASE("sysctls: the value, and whether it can be written") {
  const test::HostFolders host;
  const Questions questions{.wanted = {},
                            .sysctls = {{"net/ipv4/ip_forward", "1"}, {"net/ipv4/vs/new", "1"}},
                            .ports = {}};
  const auto facts = read_host_facts(questions, host.paths());
  REQUIRE(facts.sysctls.size() == 2);
  CHECK(facts.sysctls[0].value == "0");
  CHECK(facts.sysctls[0].writable);
  CHECK_FALSE(facts.sysctls[1].value);
  CHECK(facts.sysctls[1].writable);
}

TEST_CASE("rp_filter: the larger of the link's and that of all") {
  const test::HostFolders host;
  const auto set = [&](const std::string& link, const char* value) {
    host.put("proc/sys/net/ipv4/conf/" + link + "/rp_filter", value);
  };
  set("all", "0\n");
  set("default", "1\n");
  set("lo", "1\n");
  set("eth0", "1\n");
  set("eth1", "2\n");
  set("eth2", "0\n");
  CHECK(read_host_facts({}, host.paths()).strict_links == std::vector<std::string>{"eth0"});
  set("all", "1\n");
  CHECK(read_host_facts({}, host.paths()).strict_links == std::vector<std::string>{"eth0", "eth2"});
}

TEST_CASE("other writers are processes by name; dockerd with a swarm alone") {
  const test::HostFolders host;
  host.put("proc/7/comm", "kube-proxy\n");
  host.put("proc/12/comm", "keepalived\n");
  host.put("proc/13/comm", "dockerd\n");
  host.put("proc/14/comm", "bash\n");
  host.put("proc/15x/comm", "kube-vip\n");
  CHECK(read_host_facts({}, host.paths()).writers ==
        std::vector<WriterFact>{{"keepalived", 12}, {"kube-proxy", 7}});
  host.put("swarm/docker-state.json", "{}");
  CHECK(read_host_facts({}, host.paths()).writers.front() == WriterFact{"dockerd", 13});
}

TEST_CASE("ports: what listens, of both families") {
  const test::HostFolders host;
  // 127.0.0.1:10249 listens, 10.0.0.2:10256 is a connection, [::]:10256 listens.
  host.put("proc/net/tcp",
           "  sl  local_address rem_address   st tx_queue\n"
           "   0: 0100007F:2809 00000000:0000 0A 00000000:00000000 00:00000000 0 0 0 1 1 0 100\n"
           "   1: 0200000A:2810 0100000A:1000 01 00000000:00000000 00:00000000 0 0 0 1 1 0 100\n");
  const Questions questions{
      .wanted = {},
      .sysctls = {},
      .ports = {{"health", address("0.0.0.0"), 10256}, {"metrics", address("127.0.0.1"), 10249}}};
  auto facts = read_host_facts(questions, host.paths());
  CHECK(facts.ports == std::vector<PortFact>{{"metrics", "127.0.0.1:10249", "127.0.0.1:10249"}});
  host.put("proc/net/tcp6",
           "   0: 00000000000000000000000000000000:2810 00000000000000000000000000000000:0000 0A "
           "00000000:00000000\n");
  facts = read_host_facts(questions, host.paths());
  REQUIRE(facts.ports.size() == 2);
  CHECK(facts.ports[0].user == "[::]:10256");
}

TEST_CASE("lines of another form are no listeners") {
  CHECK(parse_tcp_table("").empty());
  for (const auto* line : {"0: 0100007F:2809 x 0B", "0: 0100007F x 0A", "0: 01:2809 x 0A",
                           "0: 0100007G:2809 x 0A", "0: 0100007F:280934 x 0A", "0: : x 0A", "0A"}) {
    CAPTURE(line);
    CHECK(parse_tcp_table(line).empty());
  }
  CHECK(parse_tcp_table("0: 0100007F:0050 x 0A") ==
        std::vector<TcpListener>{{address("127.0.0.1"), 80}});
  CHECK_FALSE(is_in_the_way({address("127.0.0.1"), 80}, {address("10.0.0.1"), 80}));
  CHECK_FALSE(is_in_the_way({address("::"), 80}, {address("10.0.0.1"), 81}));
  CHECK(is_in_the_way({address("127.0.0.1"), 80}, {address("0.0.0.0"), 80}));
}

TEST_CASE("what handles SCTP is seen in the names of functions") {
  const test::HostFolders host;
  CHECK_FALSE(read_host_facts({}, host.paths()).sctp_symbol);
  host.put("proc/kallsyms", "0 t tcp_conn_schedule\t[ip_vs]\n");
  CHECK(read_host_facts({}, host.paths()).sctp_symbol == false);
  host.put("proc/kallsyms", "0 t tcp_conn_schedule\t[ip_vs]\n0 t sctp_conn_schedule\t[ip_vs]\n");
  CHECK(read_host_facts({}, host.paths()).sctp_symbol == true);
}

TEST_CASE("a legacy table drops by its policy, or by a rule without a condition") {
  using ipset::Verdict;
  ipset::WholeTable whole;
  whole.policies = {
      {"INPUT", Verdict::accept}, {"FORWARD", Verdict::drop}, {"OUTPUT", Verdict::drop}};
  const auto places = [&](ipset::Table table) {
    std::vector<std::string> found;
    for (const auto& drop : legacy_drops(netlink::Family::ipv4, table, whole))
      found.push_back(drop.place);
    return found;
  };
  CHECK(places(ipset::Table::mangle) ==
        std::vector<std::string>{"legacy IPv4 table mangle, chain FORWARD",
                                 "legacy IPv4 table mangle, chain OUTPUT"});
  whole.policies["OUTPUT"] = whole.policies["FORWARD"] = Verdict::accept;
  ipset::Rule rule{.target = ipset::RejectTarget{}};
  rule.protocol = netlink::Protocol::tcp;
  whole.chains["INPUT"] = {rule};
  CHECK(places(ipset::Table::mangle).empty());
  rule.protocol.reset();
  whole.chains["INPUT"] = {ipset::Rule{.target = Verdict::accept}, rule};
  CHECK(places(ipset::Table::mangle).size() == 1);
  rule.target = ipset::ForeignTarget{.description = "-j REJECT --reject-with icmp-host-prohibited",
                                     .conditions = {},
                                     .action = ipset::RejectAction{}};
  whole.chains["INPUT"] = {rule};
  CHECK(places(ipset::Table::mangle).size() == 1);
  rule.target = ipset::ForeignTarget{.description = "-m time -j DROP",
                                     .conditions = {ipset::UnknownCondition{}},
                                     .action = Verdict::drop};
  whole.chains["INPUT"] = {rule};
  CHECK(places(ipset::Table::mangle).empty());
}

}  // namespace
}  // namespace ipvsproxier::check

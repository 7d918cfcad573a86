#include "cmd/ipvsctl/ipvsctl_options.h"

#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/command_line.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::IpPrefix;
using netlink::Protocol;

struct Answer {
  CtlCommand line;
  std::string out;
  std::string err;
};

Answer parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ipvsctl");
  std::ostringstream out;
  std::ostringstream err;
  auto line = parse_ctl_options(static_cast<int>(words.size()), words.data(), out, err);
  return {line, out.str(), err.str()};
}

ListOptions list(std::vector<const char*> words) {
  words.insert(words.begin(), "list");
  const auto answer = parse(words);
  INFO(answer.err);
  REQUIRE(std::holds_alternative<ListOptions>(answer.line));
  return std::get<ListOptions>(answer.line);
}

TEST_CASE("ipvsctl list alone is the table with the cluster's names") {
  const auto options = list({});
  CHECK(options.subject == ListSubject::table);
  CHECK(options.format == ListFormat::text);
  CHECK(options.columns == Columns::plain);
  CHECK(options.sorted);
  CHECK_FALSE(options.resolve);
  CHECK(options.names);
  CHECK(options.socket == "/run/ipvs-proxier/control.sock");
  CHECK_FALSE(options.services.ns);
  CHECK_FALSE(options.services.service);
  CHECK_FALSE(options.exact);
  CHECK(options.filter == ListFilter{});
}

TEST_CASE("ipvsctl list: forms") {
  CHECK(list({"-o", "save"}).format == ListFormat::save);
  CHECK(list({"--output=json"}).format == ListFormat::json);
  CHECK(list({"-o", "yaml"}).format == ListFormat::yaml);
  CHECK(list({"-owide", "-n"}).format == ListFormat::wide);
}

TEST_CASE("ipvsctl list: columns; of several the first of ipvsadm's order counts") {
  CHECK(list({"--stats"}).columns == Columns::stats);
  CHECK(list({"--rate"}).columns == Columns::rate);
  CHECK(list({"--thresholds"}).columns == Columns::thresholds);
  CHECK(list({"--persistent-conn"}).columns == Columns::persistent);
  CHECK(list({"--tun-info"}).columns == Columns::tunnels);
  CHECK(list({"--tun-info", "--rate", "--exact"}).columns == Columns::rate);
  CHECK(list({"--stats", "--exact"}).exact);
}

TEST_CASE("ipvsctl list: other things than the table") {
  CHECK(list({"-c"}).subject == ListSubject::connections);
  CHECK(list({"-n", "-c", "--persistent-conn"}).persistence);
  CHECK(list({"--timeout", "-n"}).subject == ListSubject::timeouts);
  CHECK(list({"--daemon"}).subject == ListSubject::daemons);
}

TEST_CASE("ipvsctl list: sorted unless told otherwise") {
  CHECK(list({"--sort"}).sorted);
  CHECK_FALSE(list({"--nosort"}).sorted);
  CHECK_FALSE(list({"--sort", "--nosort"}).sorted);
}

TEST_CASE("ipvsctl list: names of the cluster unless numbers or ipvsadm's form are asked for") {
  CHECK(list({"-o", "wide"}).names);
  CHECK(list({"-o", "json", "--control-socket", "/x"}).socket == "/x");
  CHECK(list({"--stats", "--resolve"}).names);
  CHECK(list({"--stats", "--resolve"}).resolve);
  for (const auto& words : {std::vector<const char*>{"-n"},
                            {"--ipvsadm", "--stats"},
                            {"-o", "save"},
                            {"-o", "json", "-n"}}) {
    CHECK_FALSE(list(words).names);
    CHECK_FALSE(list(words).resolve);
  }
  CHECK(list({"--ipvsadm", "--resolve"}).resolve);
}

TEST_CASE("ipvsctl list: of a namespace, of a Service") {
  CHECK(list({"-N", "shop"}).services.ns == "shop");
  CHECK(list({"-n", "--service", "shop/web"}).services.service ==
        api::NamespacedName{"shop", "web"});
}

TEST_CASE("ipvsctl list: filters") {
  const auto filter = list({"--vip", "10.0.0.1", "--port", "0", "--protocol", "SCTP", "--backend",
                            "[fd00::2]:80", "--draining"})
                          .filter;
  CHECK(filter.vip == IpPrefix::parse("10.0.0.1/32"));
  CHECK(filter.port == 0);
  CHECK(filter.protocol == Protocol::sctp);
  CHECK(filter.backend == Backend::parse("[fd00::2]:80"));
  CHECK(filter.draining);
  CHECK(list({"--vip", "fd00::/64"}).filter.vip == IpPrefix::parse("fd00::/64"));
  CHECK(list({"--empty"}).filter.empty);
  CHECK(list({"-c", "--vip", "10.0.0.1", "--backend", "10.1.0.2"}).filter.backend);
}

TEST_CASE("ipvsctl plan hands on the flags that are the daemon's") {
  const auto answer = parse({"plan", "--config", "a.yaml", "--kubeconfig", "k", "--vip-ping=false",
                             "-o", "json", "--manifests=m"});
  INFO(answer.err);
  REQUIRE(std::holds_alternative<PlanOptions>(answer.line));
  const auto& plan = std::get<PlanOptions>(answer.line);
  CHECK(plan.arguments ==
        std::vector<std::string>{"--config", "a.yaml", "--vip-ping=false", "--manifests=m"});
  CHECK(plan.kubeconfig == "k");
  CHECK(plan.json);
}

TEST_CASE("ipvsctl diff and status ask where the daemon answers") {
  const auto diff = std::get<DiffOptions>(parse({"diff"}).line);
  CHECK(diff.socket == "/run/ipvs-proxier/control.sock");
  CHECK_FALSE(diff.json);
  const auto status =
      std::get<StatusOptions>(parse({"status", "--control-socket", "/x", "-ojson"}).line);
  CHECK(status.socket == "/x");
  CHECK(status.json);
  CHECK(status.probe.empty());
  CHECK(std::get<StatusOptions>(parse({"status", "--probe", "livez"}).line).probe == "livez");
  CHECK(std::get<int>(parse({"status", "--probe", "readyz"}).line) == 2);
  CHECK(std::get<int>(parse({"diff", "-o", "yaml"}).line) == 2);
}

TEST_CASE("ipvsctl sets: all, or one's elements") {
  const auto all = std::get<SetsOptions>(parse({"sets"}).line);
  CHECK(all.name.empty());
  CHECK(all.format == SetFormat::text);
  CHECK(all.names);
  CHECK(all.socket == cmd::kControlSocket);
  CHECK_FALSE(std::get<SetsOptions>(parse({"sets", "-n", "KUBE-CLUSTER-IP"}).line).names);
  CHECK(std::get<SetsOptions>(parse({"sets", "--control-socket", "/x"}).line).socket == "/x");
  const auto one = std::get<SetsOptions>(parse({"sets", "KUBE-CLUSTER-IP", "-o", "yaml"}).line);
  CHECK(one.name == "KUBE-CLUSTER-IP");
  CHECK(one.format == SetFormat::yaml);
  CHECK(std::get<int>(parse({"sets", "one", "two"}).line) == 2);
  CHECK(std::get<int>(parse({"sets", "-o", "save"}).line) == 2);
}

TEST_CASE("ipvsctl service: a name or an address") {
  const auto service = [](std::vector<const char*> words) {
    words.insert(words.begin(), "service");
    const auto answer = parse(words);
    INFO(answer.err);
    REQUIRE(std::holds_alternative<ServiceOptions>(answer.line));
    return std::get<ServiceOptions>(answer.line);
  };
  CHECK(service({"shop/web"}).name == api::NamespacedName{"shop", "web"});
  CHECK(service({"1st/10"}).name == api::NamespacedName{"1st", "10"});
  CHECK(service({"shop/web"}).format == SetFormat::text);
  CHECK(service({"shop/web"}).socket == "/run/ipvs-proxier/control.sock");
  CHECK(service({"10.96.0.1"}).address == Backend::parse("10.96.0.1"));
  CHECK(service({"[fd00::1]:53", "-o", "yaml"}).address == Backend::parse("[fd00::1]:53"));
  CHECK(service({"[fd00::1]:53", "-o", "yaml"}).format == SetFormat::yaml);
  for (const auto& words : {std::vector<const char*>{"service"},
                            {"service", "web"},
                            {"service", "/web"},
                            {"service", "10.96.0.1:http"},
                            {"service", "shop/web", "-o", "wide"}})
    CHECK(std::get<int>(parse(words).line) == 2);
}

TEST_CASE("ipvsctl explain: who sends, to whom, over what, by which link") {
  const auto explain = [](std::vector<const char*> words) {
    words.insert(words.begin(), "explain");
    const auto answer = parse(words);
    INFO(answer.err);
    REQUIRE(std::holds_alternative<ExplainOptions>(answer.line));
    return std::get<ExplainOptions>(answer.line);
  };
  const auto simple = explain({"10.1.0.7", "10.96.0.1:443"});
  CHECK(simple.flow.source == netlink::IpAddress::parse("10.1.0.7"));
  CHECK(simple.flow.source_port == 0);
  CHECK(simple.flow.destination == netlink::IpAddress::parse("10.96.0.1"));
  CHECK(simple.flow.port == 443);
  CHECK(simple.flow.protocol == Protocol::tcp);
  CHECK_FALSE(simple.json);
  CHECK_FALSE(simple.live);
  CHECK(simple.socket == "/run/ipvs-proxier/control.sock");
  const auto full =
      explain({"[fd00::7]:4000", "[fd00::1]:53/UDP", "--in", "eth1", "--live", "-o", "json"});
  CHECK(full.flow.source_port == 4000);
  CHECK(full.flow.destination == netlink::IpAddress::parse("fd00::1"));
  CHECK(full.flow.protocol == Protocol::udp);
  CHECK(full.flow.in_link == "eth1");
  CHECK(full.json);
  CHECK(full.live);
  CHECK_FALSE(explain({"node", "10.96.0.1:443/sctp"}).flow.source);
}

TEST_CASE("ipvsctl answers --version and --help with status 0") {
  const auto version = parse({"--version"});
  CHECK(std::get<int>(version.line) == 0);
  CHECK(version.out == "ipvsctl " IPVS_PROXIER_VERSION "\n");
  const auto help = parse({"--help"});
  CHECK(std::get<int>(help.line) == 0);
  CHECK(help.out.find("list") != std::string::npos);
}

TEST_CASE("ipvsctl refuses what it does not know with status 2") {
  const auto answer = GENERATE(
      as<Answer>{}, parse({}), parse({"explain"}), parse({"explain", "10.0.0.1"}),
      parse({"explain", "10.0.0.1", "10.0.0.2"}), parse({"explain", "web", "10.0.0.2:80"}),
      parse({"explain", "10.0.0.1", "10.0.0.2:0"}),
      parse({"explain", "10.0.0.1", "10.0.0.2:80/icmp"}),
      parse({"explain", "10.0.0.1", "10.0.0.2:80", "-o", "yaml"}), parse({"list", "-o", "xml"}),
      parse({"list", "-o"}), parse({"--frobnicate"}), parse({"list", "more"}),
      parse({"list", "--vip", "web"}), parse({"list", "--vip", "10.0.0.0/33"}),
      parse({"list", "--port", "http"}), parse({"list", "--port", "65536"}),
      parse({"list", "--port", "-1"}), parse({"list", "--protocol", "icmp"}),
      parse({"list", "--backend", "10.1.0.2:"}), parse({"list", "--vip", ""}),
      parse({"list", "--service", "web"}), parse({"list", "--service", "shop/"}));
  REQUIRE(std::holds_alternative<int>(answer.line));
  CHECK(std::get<int>(answer.line) == 2);
  CHECK(answer.out.empty());
  CHECK_FALSE(answer.err.empty());
}

TEST_CASE("ipvsctl names two options that do not go together") {
  using Words = std::vector<const char*>;
  const auto words =
      GENERATE(Words{"-c", "--timeout"}, Words{"--timeout", "--daemon"}, Words{"-c", "--stats"},
               Words{"-c", "-o", "json"}, Words{"-c", "--nosort"}, Words{"-c", "--empty"},
               Words{"--daemon", "--vip", "10.0.0.1"}, Words{"--timeout", "--persistent-conn"},
               Words{"-o", "json", "--stats"}, Words{"-o", "save", "--ipvsadm"},
               Words{"--empty", "--draining"}, Words{"--empty", "--backend", "10.1.0.2"},
               Words{"-n", "--resolve"}, Words{"-N", "shop", "--service", "shop/web"},
               Words{"-c", "-N", "shop"});
  auto all = words;
  all.insert(all.begin(), "list");
  const auto answer = parse(all);
  INFO(answer.err);
  REQUIRE(std::holds_alternative<int>(answer.line));
  CHECK(std::get<int>(answer.line) == 2);
  CHECK(answer.err.find(" excludes ") != std::string::npos);
}

TEST_CASE("ipvsctl says what a value should have been") {
  const auto answer = parse({"list", "--vip", "web"});
  CHECK(answer.err.find("\"web\" is no address or prefix") != std::string::npos);
}

TEST_CASE("ipvsctl top: flags") {
  const auto plain = parse({"top"});
  REQUIRE(std::holds_alternative<TopOptions>(plain.line));
  CHECK(std::get<TopOptions>(plain.line).view == TopView{});
  CHECK(std::get<TopOptions>(plain.line).count == 0);
  CHECK(std::get<TopOptions>(plain.line).socket == cmd::kControlSocket);
  CHECK(std::get<TopOptions>(parse({"top", "-n"}).line).socket.empty());
  const auto all = parse({"top", "--by", "backend", "--sort-by=bytes", "--reverse", "--filter",
                          "web", "--interval", "0.5", "--once"});
  REQUIRE(std::holds_alternative<TopOptions>(all.line));
  CHECK(std::get<TopOptions>(all.line).view == TopView{.by_backend = true,
                                                       .sort = TopSort::bytes,
                                                       .reversed = true,
                                                       .filter = "web",
                                                       .interval = std::chrono::milliseconds(500)});
  CHECK(std::get<TopOptions>(all.line).count == 1);
  for (const auto& words : std::vector<std::vector<const char*>>{{"top", "--interval", "0"},
                                                                 {"top", "--interval", "x"},
                                                                 {"top", "--count", "0"},
                                                                 {"top", "--count", "2", "--once"},
                                                                 {"top", "--by", "pod"},
                                                                 {"top", "--sort-by", "speed"}}) {
    const auto wrong = parse(words);
    CHECK(std::holds_alternative<int>(wrong.line));
    CHECK_FALSE(wrong.err.empty());
  }
}

TEST_CASE("ipvsctl connections and addresses: flags") {
  const auto connections =
      parse({"connections", "--vip", "10.0.0.0/8", "--sort-by", "state", "-n"});
  REQUIRE(std::holds_alternative<ConnectionsOptions>(connections.line));
  const auto& options = std::get<ConnectionsOptions>(connections.line);
  CHECK(options.style.filter == ListFilter{.vip = IpPrefix::parse("10.0.0.0/8")});
  CHECK(options.style.sort == ConnectionSort::state);
  CHECK_FALSE(options.names);
  CHECK_FALSE(options.services.of_some());
  const auto some = parse({"connections", "-nN", "shop", "--control-socket", "/x"});
  REQUIRE(std::holds_alternative<ConnectionsOptions>(some.line));
  CHECK(std::get<ConnectionsOptions>(some.line).services.ns == "shop");
  CHECK(std::get<ConnectionsOptions>(some.line).socket == "/x");
  const auto of_one = parse({"connections", "--service", "shop/web"});
  REQUIRE(std::holds_alternative<ConnectionsOptions>(of_one.line));
  CHECK(std::get<ConnectionsOptions>(of_one.line).services.service ==
        api::NamespacedName{"shop", "web"});
  const auto both = parse({"connections", "--service", "shop/web", "-N", "shop"});
  CHECK(both.err.find("--namespace excludes --service") != std::string::npos);
  CHECK(parse({"connections", "--service", "web"}).err.find("\"web\" is no namespace/name") !=
        std::string::npos);
  const auto addresses = parse({"addresses", "-o", "yaml"});
  REQUIRE(std::holds_alternative<AddressesOptions>(addresses.line));
  CHECK(std::get<AddressesOptions>(addresses.line).format == SetFormat::yaml);
  CHECK(std::get<AddressesOptions>(addresses.line).names);
  CHECK(std::get<AddressesOptions>(addresses.line).socket == cmd::kControlSocket);
  CHECK(std::holds_alternative<int>(parse({"connections", "--draining"}).line));
  CHECK(std::holds_alternative<int>(parse({"addresses", "-o", "save"}).line));
}

RuleStyle rules(std::vector<const char*> words) {
  words.insert(words.begin(), "rules");
  const auto answer = parse(words);
  INFO(answer.err);
  REQUIRE(std::holds_alternative<RuleStyle>(answer.line));
  return std::get<RuleStyle>(answer.line);
}

TEST_CASE("ipvsctl rules: which, and in which form") {
  CHECK(rules({}).form == RuleForm::text);
  CHECK_FALSE(rules({}).choice.family);
  CHECK_FALSE(rules({}).choice.table);
  CHECK(rules({"KUBE-SERVICES"}).choice.chain == "KUBE-SERVICES");
  CHECK(rules({"-4"}).choice.family == netlink::Family::ipv4);
  CHECK(rules({"--ipv6"}).choice.family == netlink::Family::ipv6);
  CHECK(rules({"--table", "nat"}).choice.table == ipset::Table::nat);
  CHECK(rules({"-o", "yaml"}).form == RuleForm::yaml);
  const auto save = rules({"-6", "-o", "save", "--counters"});
  CHECK(save.form == RuleForm::save);
  CHECK(save.counters);
}

TEST_CASE("ipvsctl rules: what does not go together") {
  for (const auto& words : std::vector<std::vector<const char*>>{{"rules", "-4", "-6"},
                                                                 {"rules", "-o", "save"},
                                                                 {"rules", "--counters"},
                                                                 {"rules", "--table", "raw"},
                                                                 {"rules", "-o", "wide"}}) {
    const auto answer = parse(words);
    CHECK(std::get<int>(answer.line) == 2);
    CHECK_FALSE(answer.err.empty());
  }
}

}  // namespace
}  // namespace ipvsproxier::ctl

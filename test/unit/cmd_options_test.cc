#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/options.h"
#include "cmd/settings.h"
#include "test/support/paths.h"
#include "test/unit/config_files.h"
#include "test/unit/kubeadm_config.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::cmd {
namespace {

using test::ConfigFile;
using test::exit_of;
using Lines = std::vector<std::string>;

Options once_with(const Lines& more) {
  Lines arguments = {"--manifests", "m", "--once"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return test::options_of(arguments);
}

std::string shop_config(const std::string& name) {
  return test::data_path("reference/shop/") + name + "/config.yaml";
}

TEST_CASE("without further flags everything has its default") {
  const auto options = once_with({});
  CHECK(options.manifests == "m");
  CHECK(options.once);
  CHECK(options.node_name == "host.name");
  CHECK(options.config.logging.verbosity == 0);
  CHECK(options.differences.vip_ping);
  config::KubeProxyConfig expected;
  expected.ipvs.min_sync_period = std::chrono::seconds(1);  // only a file means 0
  CHECK(options.config == expected);
  CHECK(options.healthz_max_watch_age == std::nullopt);
  CHECK_FALSE(options.init_only);
  CHECK(test::lines_of(options.warnings) == Lines{});
}

TEST_CASE("flags take their values in every spelling, the last counts") {
  CHECK(once_with({"-v", "3"}).config.logging.verbosity == 3);
  CHECK(once_with({"--v=3"}).config.logging.verbosity == 3);
  CHECK(once_with({"--manifests=a", "--manifests", "b"}).manifests == "b");
  CHECK(once_with({"--once=false", "--once=true"}).once);
  CHECK(once_with({"-v3"}).config.logging.verbosity == 3);
  CHECK(once_with({"-v=3"}).config.logging.verbosity == 3);
  CHECK(once_with({"--v=2", "--v", "4"}).config.logging.verbosity == 4);
  CHECK(once_with({"--hostname_override=My_Node"}).node_name == "my_node");
  CHECK(once_with({"--hostname-override", " KP "}).node_name == "kp");
  CHECK(once_with({"--hostname-override="}).node_name == "host.name");
  CHECK_FALSE(once_with({"--vip-ping=false"}).differences.vip_ping);
  CHECK(once_with({"--vip_ping"}).differences.vip_ping);
}

TEST_CASE("--check has a form") {
  CHECK(test::options_of({"--check"}).check);
  CHECK_FALSE(test::options_of({"--check"}).json);
  CHECK(test::options_of({"--check", "-o", "json"}).json);
  CHECK_FALSE(test::options_of({"--check", "--output=json", "--output=text"}).json);
  CHECK(exit_of({"--check", "--output=yaml"}).text.find("must be text or json") !=
        std::string::npos);
}

TEST_CASE("the brake is on unless it is switched off, or this is to be kube-proxy") {
  CHECK(test::options_of({}).mass_removal_brake);
  CHECK(test::options_of({"--mass_removal_brake"}).mass_removal_brake);
  CHECK_FALSE(test::options_of({"--mass-removal-brake=false"}).mass_removal_brake);
  CHECK_FALSE(test::options_of({"--kube-proxy-compat"}).mass_removal_brake);
  CHECK_FALSE(
      test::options_of({"--kube-proxy-compat", "--mass-removal-brake=false"}).mass_removal_brake);
  CHECK_FALSE(once_with({"--mass-removal-brake=false"}).mass_removal_brake);
}

TEST_CASE("differences that an operator may go without have a flag") {
  const plan::Differences all;
  const auto without = [](const std::string& flag) {
    return once_with({"--" + flag + "=false"}).differences;
  };
  const std::vector<std::pair<std::string, bool plan::Differences::*>> differences{
      {"strict-internal-traffic-policy", &plan::Differences::strict_internal_traffic_policy},
      {"keep-foreign-services", &plan::Differences::keep_foreign_services},
      {"service-annotations", &plan::Differences::service_annotations},
      {"guard-api-server", &plan::Differences::guard_api_server},
      {"in-cluster-clients", &plan::Differences::in_cluster_clients},
  };
  for (const auto& [flag, member] : differences) {
    auto one = all;
    one.*member = false;
    CAPTURE(flag);
    CHECK(without(flag) == one);
  }
}

TEST_CASE("ranges for clients within the cluster are one of a family, with room") {
  const auto ranges = [](const std::string& text) {
    std::string joined;
    const auto options = once_with({"--in-cluster-ranges=" + text});
    for (const auto& range : planner_options(options, {}).in_cluster_ranges)
      joined += range.to_string() + " ";
    return joined;
  };
  CHECK(planner_options(once_with({}), {}).in_cluster_ranges.size() == 2);
  CHECK(ranges("fd00:1::/64,198.18.0.0/15") == "198.18.0.0/15 fd00:1::/64 ");
  CHECK(ranges("198.18.0.0/15") == "198.18.0.0/15 ");
  CHECK(ranges("").empty());
  for (const auto* wrong : {"198.18.0.0/15,240.0.0.0/4", "198.18.0.0", "10.0.0.0/25", "127.0.0.0/8",
                            "0.0.0.0/4", "fd00::/121", "x"})
    CHECK(exit_of({std::string("--in-cluster-ranges=") + wrong}).status == 1);
}

TEST_CASE("IPv6 forwarding and draining Services are asked for, estimators are not stopped") {
  CHECK_FALSE(once_with({}).ipv6_forwarding);
  CHECK(once_with({"--ipv6-forwarding"}).ipv6_forwarding);
  CHECK_FALSE(once_with({}).reserve_node_ports);
  CHECK(once_with({"--reserve-node-ports"}).reserve_node_ports);
  CHECK_FALSE(once_with({}).drain_deleted_services);
  CHECK(once_with({"--drain-deleted-services"}).drain_deleted_services);
  CHECK(once_with({}).ipvs_estimators);
  CHECK_FALSE(once_with({"--ipvs-estimators=false"}).ipvs_estimators);
}

TEST_CASE("flags and limits for all Services, and whose traffic is told") {
  const auto plain = once_with({});
  CHECK_FALSE(plain.scheduler_flags);
  CHECK(plain.max_connections == model::Thresholds{});
  CHECK(plain.service_metrics == model::ServiceMetrics::off);
  const auto options = once_with({"--scheduler-flags=mh-port,flag-3", "--max-connections=10/8",
                                  "--service-metrics=annotated"});
  CHECK(options.scheduler_flags == (netlink::kSchedulerFlag2 | netlink::kSchedulerFlag3));
  CHECK(options.max_connections == model::Thresholds{10, 8});
  CHECK(options.service_metrics == model::ServiceMetrics::annotated);
  CHECK(options.warnings.empty());
  CHECK(planner_options(options, {}).scheduler_flags == options.scheduler_flags);
  CHECK(planner_options(options, {}).max_connections == options.max_connections);
  CHECK(once_with({"--scheduler-flags="}).scheduler_flags == 0U);
  CHECK(once_with({"--service-metrics=all", "--service-annotations=false"}).service_metrics ==
        model::ServiceMetrics::all);
  CHECK(once_with({"--service-metrics=all", "--ipvs-estimators=false"}).warnings.size() == 1);
}

TEST_CASE("flags that were removed have no effect, and one warning names them") {
  const auto options = once_with({"--short_paths=false", "--lean-loop-back", "--ipvs-conn-max=7",
                                  "--ipvs-est-nice", "-5", "--short-paths"});
  CHECK(options.differences == plan::Differences{});
  CHECK(test::lines_of(options.warnings) ==
        Lines{"warning: these flags were removed and have no effect: --lean-loop-back, "
              "--short-paths, --ipvs-conn-max, --ipvs-est-nice; ipvs-proxier(8) says what to use "
              "instead"});
  CHECK(once_with({"--kube-proxy-compat", "--lean-loop-back"}).differences ==
        plan::kKubeProxyCompat);
  CHECK(exit_of({"--help"}).text.find("short-paths") == std::string::npos);
}

TEST_CASE("VIPs are bound as addresses, or by routes that are asked for") {
  CHECK_FALSE(once_with({}).bind_by_routes);
  CHECK(once_with({"--vip-binding=route"}).bind_by_routes);
  CHECK_FALSE(once_with({"--vip_binding=route", "--vip-binding", "address"}).bind_by_routes);
  CHECK_FALSE(once_with({"--kube-proxy-compat", "--vip-binding=address"}).bind_by_routes);
  CHECK(planner_options(once_with({"--vip-binding=route"}), {}).bind_by_routes);
}

TEST_CASE("ipvsctl is answered on a socket that is known, elsewhere or nowhere") {
  CHECK(once_with({}).control_socket == "/run/ipvs-proxier/control.sock");
  CHECK(once_with({"--control-socket="}).control_socket.empty());
  const auto options = once_with({"--control-socket", "/tmp/c"});
  CHECK(options.control_socket == "/tmp/c");
  REQUIRE(options.flags.size() >= 2);
  CHECK(std::find(options.flags.begin(), options.flags.end(), "/tmp/c") != options.flags.end());
}

TEST_CASE("draining has no bound but what --drain-timeout says") {
  CHECK(once_with({}).drain_timeout == std::nullopt);
  CHECK(once_with({"--drain-timeout=0s"}).drain_timeout == std::nullopt);
  CHECK(once_with({"--drain-timeout", "1m30s"}).drain_timeout == std::chrono::seconds(90));
}

TEST_CASE("without --once the manifests are followed") {
  CHECK(once_with({}).once);
  CHECK_FALSE(test::options_of({"--manifests", "m"}).once);
}

TEST_CASE("without --manifests objects come from an API server") {
  const auto in_cluster = test::options_of({});
  CHECK(in_cluster.manifests.empty());
  CHECK(in_cluster.master.empty());
  CHECK(in_cluster.config.client_connection.kubeconfig.empty());
  const auto options = test::options_of({"--master=https://10.0.0.1:6443", "--kubeconfig=/k",
                                         "--healthz-max-watch-age", "10m", "--init-only"});
  CHECK(options.master == "https://10.0.0.1:6443");
  CHECK(options.config.client_connection.kubeconfig == "/k");
  CHECK(options.healthz_max_watch_age == std::chrono::minutes(10));
  CHECK(options.init_only);
  CHECK(test::options_of({"--manifests=", "--master=m"}).master == "m");
}

TEST_CASE("compatibility switches every difference off") {
  CHECK(once_with({"--kube-proxy-compat"}).differences == plan::kKubeProxyCompat);
  CHECK(once_with({"--kube-proxy-compat", "--vip-ping=false"}).differences ==
        plan::kKubeProxyCompat);
  CHECK(once_with({"--kube-proxy-compat=false", "--vip-ping"}).differences == plan::Differences{});
}

TEST_CASE("flags of our own count beside the configuration file") {
  const auto config = shop_config("clustercidr");
  CHECK(once_with({"--config", config}).node_name == "kp");
  const auto options = once_with({"--config=" + config, "--hostname-override=n9", "-v", "5"});
  CHECK(options.node_name == "n9");
  CHECK(options.config.logging.verbosity == 5);
  CHECK(options.config.cluster_cidr == "10.244.0.0/16,fd00:244::/64");
  ConfigFile file("logging: {verbosity: 7}\nunheard: of\n");
  const auto warned = once_with({"--config", file.path()});
  CHECK(warned.config.logging.verbosity == 7);
  CHECK(test::lines_of(warned.warnings) ==
        Lines{"warning: " + file.path() + ": unheard: unknown field; it is ignored"});
}

TEST_CASE("help and version end with status 0") {
  const auto help = exit_of({"--help"});
  CHECK(help.status == 0);
  for (const std::string flag :
       {"--manifests", "--once", "--config", "--hostname-override", "-v,--v", "--version",
        "--vip-ping", "--kube-proxy-compat", "--drain-timeout"})
    CHECK(help.text.find(flag) != std::string::npos);
  CHECK(exit_of({"--version", "--once"}).status == 0);
  CHECK(exit_of({"--version"}).text == "ipvs-proxier " IPVS_PROXIER_VERSION "\n");
}

TEST_CASE("mistakes in flags end with status 1, the usage and behind it what is wrong") {
  const auto [arguments, message] = GENERATE(table<Lines, std::string>({
      {Lines{"--drain-timeout", "soon"},
       "invalid argument \"soon\" for \"--drain-timeout\" flag: must be a duration such as 30s or "
       "1m30s"},
      {Lines{"--drain-timeout=-1s"},
       "invalid argument \"-1s\" for \"--drain-timeout\" flag: must not be negative"},
      {Lines{"--healthz_max_watch_age=-1ns"},
       "invalid argument \"-1ns\" for \"--healthz-max-watch-age\" flag: must not be negative"},
      {Lines{"--once=perhaps"},
       "invalid argument \"perhaps\" for \"--once\" flag: must be true or false"},
      {Lines{"-v="},
       "invalid argument \"\" for \"--v\" flag: must be a whole number from 0 to 4294967295"},
      {Lines{"--v=99999999999"},
       "invalid argument \"99999999999\" for \"--v\" flag: must be a whole number from 0 to "
       "4294967295"},
      {Lines{"-v", "much"},
       "invalid argument \"much\" for \"--v\" flag: must be a whole number from 0 to 4294967295"},
      {Lines{"-v=-1"},
       "invalid argument \"-1\" for \"--v\" flag: must be a whole number from 0 to 4294967295"},
      {Lines{"more"}, "unknown flag or argument: more"},
      {Lines{"--", "more"}, "unknown flag or argument: -- more"},
      {Lines{"--proxy-modes=ipvs"}, "unknown flag or argument: --proxy-modes=ipvs"},
      {Lines{"--vip-ping=perhaps"},
       "invalid argument \"perhaps\" for \"--vip-ping\" flag: must be true or false"},
  }));
  CAPTURE(arguments);
  const auto exit = exit_of(arguments);
  CHECK(exit.status == 1);
  CHECK(exit.text.find("Usage: ipvs-proxier") != std::string::npos);
  const auto end = "\nError: " + message + "\n";
  REQUIRE(exit.text.size() > end.size());
  CHECK(exit.text.substr(exit.text.size() - end.size()) == end);
}

TEST_CASE("a flag without its value is a mistake") {
  for (const std::string flag : {"-v", "--config", "--ipvs-scheduler"})
    CHECK(exit_of({"--manifests=m", flag})
              .text.find("Error: --" + flag.substr(flag[1] == 'v' ? 1 : 2)) != std::string::npos);
}

TEST_CASE("flags that contradict each other end with status 1 and say so, without the usage") {
  const std::string sources = ": objects come from files or from an API server, not both";
  const auto [arguments, message] = GENERATE_COPY(table<Lines, std::string>({
      {Lines{"--manifests=m", "--master=s"}, "--manifests contradicts --master" + sources},
      {Lines{"--manifests=m", "--kubeconfig=k"}, "--manifests contradicts --kubeconfig" + sources},
      {Lines{"--manifests=m", "--healthz-max-watch-age=1m"},
       "--manifests contradicts --healthz-max-watch-age" + sources},
      {Lines{"--manifests=m", "--master=s", "--config=c"},
       "--manifests contradicts --master" + sources},
      {Lines{"--check", "--manifests=m", "--once"},
       "--check contradicts --once: it looks and ends"},
      {Lines{"--check", "--cleanup"}, "--check contradicts --cleanup: it looks and ends"},
      {Lines{"--check", "--write-config-to=f"},
       "--check contradicts --write-config-to: it looks and ends"},
      {Lines{"-o", "json"}, "--output goes with --check alone"},
      {Lines{"--cleanup", "--init-only"}, "--cleanup contradicts --init-only: it removes and ends"},
      {Lines{"--cleanup", "--once", "--manifests=m"},
       "--cleanup contradicts --once: it removes and ends"},
      {Lines{"--kube-proxy-compat", "--vip-binding=route"},
       "--vip-binding=route contradicts --kube-proxy-compat: kube-proxy binds addresses"},
      {Lines{"--manifests=m", "--kube-proxy-compat", "--scheduler-flags=mh-port"},
       "--scheduler-flags contradicts --kube-proxy-compat: kube-proxy has its own"},
      {Lines{"--manifests=m", "--kube-proxy-compat", "--max-connections=5"},
       "--max-connections contradicts --kube-proxy-compat: kube-proxy has no such limit"},
      {Lines{"--manifests=m", "--kube-proxy-compat", "--service-metrics=annotated"},
       "--service-metrics=annotated contradicts --kube-proxy-compat: no annotation counts"},
      {Lines{"--manifests=m", "--service-annotations=false", "--service-metrics=annotated"},
       "--service-metrics=annotated contradicts --service-annotations=false: no annotation counts"},
      {Lines{"--once", "--init-only"}, "--once contradicts --init-only, which programs nothing"},
      {Lines{"--hostname-override= "}, "--hostname-override must not be blank"},
      {Lines{"--kube-proxy-compat", "--vip-ping"},
       "--vip-ping=true contradicts --kube-proxy-compat, which switches it off"},
      {Lines{"--manifests=m", "--mass-removal-brake"},
       "--manifests contradicts --mass-removal-brake" + sources},
      {Lines{"--kube-proxy-compat", "--mass-removal-brake"},
       "--mass-removal-brake=true contradicts --kube-proxy-compat, which switches it off"},
      {Lines{"--manifests=m", "--kube-proxy-compat", "--nodeport-addresses=primary,localhost"},
       "nodePortAddresses: localhost contradicts --kube-proxy-compat: kube-proxy 1.36 does not "
       "know "
       "the word, and serves no node port on localhost in this mode"},
  }));
  CAPTURE(arguments);
  const auto exit = exit_of(arguments);
  CHECK(exit.status == 1);
  CHECK(exit.text == "Error: " + message + "\nipvs-proxier --help lists the flags.\n");
}

TEST_CASE("a configuration file that cannot be read is a mistake") {
  CHECK(exit_of({"--config", "/nonexistent"}).text ==
        "Error: /nonexistent: cannot be read: No such file or directory\n");
  CHECK(exit_of({"--config", "/"}).text == "Error: /: cannot be read: Is a directory\n");
  CHECK(exit_of({"--config", "/"}).status == 1);
}

TEST_CASE("all problems of a configuration file are listed") {
  ConfigFile file("mode: iptables\nipvs: {scheduler: 5}\nunheard: of\noomScoreAdj: 5000\n");
  const auto& path = file.path();
  CHECK(exit_of({"--config", path}).text ==
        "Error: " + path + ": ipvs.scheduler: must be text, not 5\n" + "Warning: " + path +
            ": unheard: unknown field; it is ignored\n" + "Error: " + path +
            ": mode, oomScoreAdj: failed validate: [KubeProxyConfiguration.Mode.ProxyMode: Invalid "
            "value: \"iptables\": must be ipvs or blank (blank means ipvs): this program only does "
            "ipvs; --ignore-mode takes the rest of the configuration, "
            "KubeProxyConfiguration.KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: 5000: "
            "must be within the range [-1000, 1000]]\n");
}

TEST_CASE("a configuration of another mode is taken where that is asked for") {
  ConfigFile file("mode: nftables\nipvs: {scheduler: mh}\nnftables: {unheard: of}\n");
  CHECK(exit_of({"--config", file.path()}).status == 1);
  const auto options = test::options_of({"--config", file.path(), "--ignore-mode"});
  CHECK(options.config.mode == "ipvs");
  CHECK(options.config.ipvs.scheduler == "mh");
  CHECK(test::lines_of(options.warnings) ==
        Lines{"warning: " + file.path() + ": nftables.unheard: unknown field; it is ignored",
              "warning: " + file.path() +
                  ": mode: is \"nftables\"; --ignore-mode: this program only does ipvs"});
  CHECK(test::options_of({"--proxy-mode=iptables", "--ignore-mode"}).config.mode == "ipvs");
}

TEST_CASE("flags are validated like a file") {
  const auto exit = exit_of({"--oom-score-adj", "-1001", "--feature-gates=Nonsense=true"});
  CHECK(exit.status == 1);
  CHECK(exit.text ==
        "Warning: featureGates.Nonsense: unknown feature gate; it is ignored\n"
        "Error: failed validate: KubeProxyConfiguration.KubeProxyLinuxConfiguration.OOMScoreAdj: "
        "Invalid value: -1001: must be within the range [-1000, 1000]\n");
  CHECK(exit_of({"--feature-gates=MultiCIDRServiceAllocator=false"}).text ==
        "Error: featureGates.MultiCIDRServiceAllocator: cannot be set to false, it is locked to "
        "true\n");
}

TEST_CASE("beside --config kube-proxy's flags are ignored, and one warning names them") {
  ConfigFile file("mode: ipvs\nipvs: {scheduler: mh}\nclientConnection: {kubeconfig: /file}\n");
  const auto options = test::options_of({"--config", file.path(), "--ipvs-scheduler=rr",
                                         "--kubeconfig=/flag", "--healthz-port=0",
                                         "--feature-gates=AllAlpha=true", "--ipvs-scheduler=wrr"});
  CHECK(test::lines_of(options.warnings) ==
        Lines{"warning: beside --config these flags are ignored: --feature-gates, --healthz-port, "
              "--ipvs-scheduler, --kubeconfig"});
  config::KubeProxyConfig expected;
  expected.mode = "ipvs";
  expected.ipvs.scheduler = "mh";
  expected.client_connection.kubeconfig = "/file";
  CHECK(options.config == expected);
  // Their texts are checked all the same.
  CHECK(exit_of({"--config", file.path(), "--healthz-port=none"}).status == 1);
}

TEST_CASE("flags that count beside --config") {
  ConfigFile file(
      "mode: ipvs\nhostnameOverride: file\n"
      "logging: {verbosity: 3, flushFrequency: 1s, vmodule: [{filePattern: a, "
      "verbosity: 1}]}\nfeatureGates: {LoggingAlphaOptions: true}\n");
  const auto options = test::options_of(
      {"--config", file.path(), "--master=m", "--init-only", "--write-config-to=/w",
       "--healthz-max-watch-age=1h", "--hostname-override=Flag", "-v=5", "--vmodule=b=2,c=3",
       "--vmodule=d=4", "--log-flush-frequency=2s", "--log-text-split-stream",
       "--log-text-info-buffer-size=1Ki", "--log-json-split-stream=true",
       "--log-json-info-buffer-size", "2Mi"});
  CHECK(test::lines_of(options.warnings) == Lines{});
  CHECK(options.master == "m");
  CHECK(options.init_only);
  CHECK(options.write_config_to == "/w");
  CHECK(options.healthz_max_watch_age == std::chrono::hours(1));
  CHECK(options.node_name == "flag");
  CHECK(options.config.hostname_override == "flag");
  const config::LoggingConfig expected = {"text",
                                          std::chrono::seconds(2),
                                          5,
                                          {{"b", 2}, {"c", 3}, {"d", 4}, {"a", 1}},
                                          {true, "1Ki"},
                                          {true, "2Mi"}};
  CHECK(options.config.logging == expected);
  // What flags leave alone is the file's.
  CHECK(test::options_of({"--config", file.path()}).config.logging.verbosity == 3);
  CHECK(test::options_of({"--config", file.path()}).node_name == "file");
  // The file's gates decide on what flags ask of the log.
  ConfigFile without("mode: ipvs\n");
  const auto warned =
      test::options_of({"--config", without.path(), "--log-text-split-stream"}).warnings;
  REQUIRE(warned.size() == 1);
  CHECK_THAT(warned[0].message, Catch::Contains("logging.options.text.splitStream: Forbidden") &&
                                    Catch::EndsWith("it has no effect here"));
  CHECK(test::options_of({"--config", without.path(), "--logging-format=json"})
            .config.logging.format == "json");
}

// `--config=/var/lib/kube-proxy/config.conf --hostname-override=$(NODE_NAME)` of kubeadm's
// DaemonSet.
TEST_CASE("kubeadm's ConfigMap and command line work unchanged") {
  const test::TempDir folder;
  const auto file = (folder.path() / "config.conf").string();
  test::write_file(file, test::kKubeadmConfig);
  const auto options = test::options_of({"--config=" + file, "--hostname-override=Node-1"});
  CHECK(test::lines_of(options.warnings) == Lines{});
  CHECK(options.node_name == "node-1");
  CHECK(options.manifests.empty());
  config::KubeProxyConfig expected;
  expected.client_connection.kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf";
  expected.cluster_cidr = "10.244.0.0/16";
  expected.mode = "ipvs";
  expected.hostname_override = "node-1";
  CHECK(options.config == expected);
}

TEST_CASE("a node needs a name") {
  config::KubeProxyConfig config;
  CHECK(resolve_node_name(config, " Machine\n") == "machine");
  CHECK_FALSE(resolve_node_name(config, ""));
  config.hostname_override = "Conf";
  CHECK(resolve_node_name(config, "m") == "conf");
  config.hostname_override = " ";
  CHECK_FALSE(resolve_node_name(config, "m"));
  CHECK(std::get<Exit>(test::parse({"--manifests=m", "--once"}, "")).status == 1);
  CHECK_FALSE(host_name().empty());
}

}  // namespace
}  // namespace ipvsproxier::cmd

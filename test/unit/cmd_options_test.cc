#include <unistd.h>
#include <array>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "cmd/options.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::cmd {
namespace {

using Lines = std::vector<std::string>;

std::variant<Options, Exit> parse(const Lines& arguments,
                                  const std::string& machine = "Host.Name") {
  std::vector<const char*> argv = {"ipvs-proxier"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data(), machine);
}

Options options_of(const Lines& more) {
  Lines arguments = {"--manifests", "m", "--once"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  auto parsed = parse(arguments);
  if (const auto* exit = std::get_if<Exit>(&parsed)) FAIL(exit->text);
  return std::get<Options>(std::move(parsed));
}

Exit exit_of(const Lines& arguments) {
  const auto parsed = parse(arguments);
  REQUIRE(std::holds_alternative<Exit>(parsed));
  return std::get<Exit>(parsed);
}

std::string shop_config(const std::string& name) {
  return std::string(TEST_DATA) + "/reference/shop/" + name + "/config.yaml";
}

// A configuration file that lasts as long as the test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "config-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    REQUIRE(fd >= 0);
    close(fd);
    path_ = pattern;
    std::ofstream(path_) << "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                            "kind: KubeProxyConfiguration\n"
                         << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("without further flags everything has its default") {
  const auto options = options_of({});
  CHECK(options.manifests == "m");
  CHECK(options.once);
  CHECK(options.node_name == "host.name");
  CHECK(options.verbosity == 0);
  CHECK(options.differences.vip_ping);
  CHECK(options.config == KubeProxyConfig{});
}

TEST_CASE("flags take their values in every spelling, the last counts") {
  CHECK(options_of({"-v", "3"}).verbosity == 3);
  CHECK(options_of({"--v=3"}).verbosity == 3);
  CHECK(options_of({"--manifests=a", "--manifests", "b"}).manifests == "b");
  CHECK(options_of({"--once=false", "--once=true"}).once);
  CHECK(options_of({"-v3"}).verbosity == 3);
  CHECK(options_of({"-v=3"}).verbosity == 3);
  CHECK(options_of({"--v=2", "--v", "4"}).verbosity == 4);
  CHECK(options_of({"--hostname_override=My_Node"}).node_name == "my_node");
  CHECK(options_of({"--hostname-override", " KP "}).node_name == "kp");
  CHECK(options_of({"--hostname-override="}).node_name == "host.name");
  CHECK_FALSE(options_of({"--vip-ping=false"}).differences.vip_ping);
  CHECK(options_of({"--vip_ping"}).differences.vip_ping);
}

TEST_CASE("draining has no bound but what --drain-timeout says") {
  CHECK(options_of({}).drain_timeout == std::nullopt);
  CHECK(options_of({"--drain-timeout=0s"}).drain_timeout == std::nullopt);
  CHECK(options_of({"--drain-timeout", "1m30s"}).drain_timeout == std::chrono::seconds(90));
}

TEST_CASE("without --once the manifests are followed") {
  CHECK(options_of({}).once);
  const std::array<const char*, 3> arguments = {"ipvs-proxier", "--manifests", "m"};
  const auto parsed = parse_options(3, arguments.data(), "machine");
  REQUIRE(std::holds_alternative<Options>(parsed));
  CHECK_FALSE(std::get<Options>(parsed).once);
}

TEST_CASE("compatibility switches every difference off") {
  CHECK(options_of({"--kube-proxy-compat"}).differences == kKubeProxyCompat);
  CHECK(options_of({"--kube-proxy-compat", "--vip-ping=false"}).differences == kKubeProxyCompat);
  CHECK(options_of({"--kube-proxy-compat=false", "--vip-ping"}).differences == Differences{});
  CHECK(exit_of({"--manifests=m", "--once", "--kube-proxy-compat", "--vip-ping"})
            .text.find("--vip-ping=true contradicts --kube-proxy-compat") != std::string::npos);
}

TEST_CASE("flags of our own count beside the configuration file") {
  const auto config = shop_config("clustercidr");
  CHECK(options_of({"--config", config}).node_name == "kp");
  const auto options = options_of({"--config=" + config, "--hostname-override=n9", "-v", "5"});
  CHECK(options.node_name == "n9");
  CHECK(options.verbosity == 5);
  CHECK(options.config.cluster_cidr == "10.244.0.0/16,fd00:244::/64");
  ConfigFile file("logging: {verbosity: 7}\nunheard: of\n");
  const auto warned = options_of({"--config", file.path()});
  CHECK(warned.verbosity == 7);
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

TEST_CASE("mistakes end with status 1 and say what is wrong") {
  const auto [arguments, message] = GENERATE(table<Lines, std::string>({
      {Lines{}, "--manifests PATH is needed"},
      {Lines{"--once"}, "--manifests PATH is needed"},
      {Lines{"--manifests="}, "--manifests PATH is needed"},
      {Lines{"--manifests", "m", "--drain-timeout", "soon"}, "--drain-timeout: \"soon\""},
      {Lines{"--manifests", "m", "--drain-timeout=-1s"}, "--drain-timeout: \"-1s\""},
      {Lines{"--manifests", "m", "--once=perhaps"}, "perhaps"},
      {Lines{"--manifests", "m", "--once", "-v="}, "--v"},
      {Lines{"--manifests", "m", "--once", "-v"}, "--v"},
      {Lines{"--manifests", "m", "--once", "--v=99999999999"}, "99999999999"},
      {Lines{"--manifests", "m", "--once", "more"}, "unknown flag or argument: more"},
      {Lines{"--manifests", "m", "--once", "--", "more"}, "unknown flag or argument: -- more"},
      {Lines{"--manifests", "m", "--once", "--proxy-mode=ipvs"},
       "unknown flag or argument: --proxy-mode=ipvs"},
      {Lines{"--manifests", "m", "--once", "-v", "much"}, "much"},
      {Lines{"--manifests", "m", "--once", "-v=-1"}, "-1"},
      {Lines{"--manifests", "m", "--once", "--vip-ping=perhaps"}, "perhaps"},
      {Lines{"--manifests", "m", "--once", "--hostname-override= "},
       "--hostname-override must not be blank"},
      {Lines{"--manifests", "m", "--once", "--config", "/nonexistent"},
       "/nonexistent: cannot be read: No such file or directory"},
  }));
  CAPTURE(arguments);
  const auto exit = exit_of(arguments);
  CHECK(exit.status == 1);
  CAPTURE(exit.text);
  CHECK(exit.text.rfind("Error: ", 0) == 0);
  CHECK(exit.text.find(message) != std::string::npos);
}

TEST_CASE("all problems of a configuration file are listed") {
  ConfigFile file("mode: iptables\nipvs: {scheduler: 5}\nunheard: of\noomScoreAdj: 5000\n");
  const auto text = exit_of({"--manifests=m", "--once", "--config", file.path()}).text;
  const auto& path = file.path();
  CHECK(
      text ==
      "Error: " + path + ": ipvs.scheduler: must be text, not 5\n" + "Warning: " + path +
          ": unheard: unknown field; it is ignored\n" + "Error: " + path +
          ": mode: KubeProxyConfiguration.Mode.ProxyMode: Invalid value: \"iptables\": must be "
          "ipvs "
          "or blank (blank means ipvs): this program only does ipvs\n" +
          "Error: " + path +
          ": oomScoreAdj: KubeProxyConfiguration.KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid "
          "value: 5000: must be within the range [-1000, 1000]\n");
}

TEST_CASE("a node needs a name") {
  KubeProxyConfig config;
  CHECK(resolve_node_name("", config, " Machine\n") == "machine");
  CHECK_FALSE(resolve_node_name("", config, ""));
  config.hostname_override = "Conf";
  CHECK(resolve_node_name("", config, "m") == "conf");
  CHECK(resolve_node_name("Over", config, "m") == "over");
  config.hostname_override = " ";
  CHECK_FALSE(resolve_node_name("", config, "m"));
  CHECK(std::get<Exit>(parse({"--manifests=m", "--once"}, "")).status == 1);
  CHECK_FALSE(host_name().empty());
}

}  // namespace
}  // namespace ipvsproxier::cmd

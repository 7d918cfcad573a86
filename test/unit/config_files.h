#pragma once

// Configuration files and command lines for tests.

#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/options.h"
#include "proxier/config/config_file.h"
#include "test/support/files.h"
#include "test/support/temp_dir.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::test {

inline const std::string kConfigHead =
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

// A configuration file that lasts as long as this.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { write(text); }
  void write(const std::string& text) const { write_file(path(), kConfigHead + text); }
  std::string path() const { return (folder_.path() / "config.yaml").string(); }

 private:
  TempDir folder_;
};

// What a file with this text configures, without a problem.
inline config::KubeProxyConfig config_of_text(const std::string& text) {
  api::Problems problems;
  auto config = config::read_config_text(text, "f", problems);
  CHECK(lines_of(problems) == std::vector<std::string>{});
  return config;
}
// The same of a file with these fields.
inline config::KubeProxyConfig config_of_fields(const std::string& fields) {
  return config_of_text(kConfigHead + fields);
}

inline std::variant<cmd::Options, cmd::Exit> parse(const std::vector<std::string>& arguments,
                                                   const std::string& machine = "Host.Name") {
  std::vector<const char*> argv = {"ipvs-proxier"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  return cmd::parse_options(static_cast<int>(argv.size()), argv.data(), machine);
}

inline cmd::Options options_of(const std::vector<std::string>& arguments) {
  auto parsed = parse(arguments);
  if (const auto* exit = std::get_if<cmd::Exit>(&parsed)) FAIL(exit->text);
  return std::get<cmd::Options>(std::move(parsed));
}

inline cmd::Exit exit_of(const std::vector<std::string>& arguments) {
  auto parsed = parse(arguments);
  REQUIRE(std::holds_alternative<cmd::Exit>(parsed));
  return std::get<cmd::Exit>(std::move(parsed));
}

}  // namespace ipvsproxier::test

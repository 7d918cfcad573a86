#pragma once

// Configuration files and command lines for tests.

#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "cmd/options.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

inline const std::string kConfigHead =
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// A configuration file that lasts as long as this.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { write(text); }
  void write(const std::string& text) const { write_file(path(), kConfigHead + text); }
  std::string path() const { return (folder_.path() / "config.yaml").string(); }

 private:
  TempDir folder_;
};

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

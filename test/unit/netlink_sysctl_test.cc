#include "netlink/sysctl.h"

#include <fstream>

#include <catch2/catch.hpp>

#include "netlink/kernel_module.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::netlink {
namespace {

using test::TempDir;

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST_CASE("a sysctl is read without blanks and written only if it differs") {
  const TempDir root;
  const Sysctl sysctl(root.path());
  const auto file = root.path() / "net/ipv4/ip_forward";
  write_file(file, "0\n");
  CHECK(*sysctl.read("net/ipv4/ip_forward") == "0");
  CHECK(*sysctl.ensure("net/ipv4/ip_forward", "1"));
  CHECK(*sysctl.read("net/ipv4/ip_forward") == "1");
  const auto written = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, written - std::chrono::hours(1));
  const auto aged = std::filesystem::last_write_time(file);
  const auto again = sysctl.ensure("net/ipv4/ip_forward", "1");
  REQUIRE(again);
  CHECK_FALSE(*again);
  CHECK(std::filesystem::last_write_time(file) == aged);
}

TEST_CASE("a longer value does not leave its end behind") {
  const TempDir root;
  write_file(root.path() / "key", "100000\n");
  CHECK(*Sysctl(root.path()).ensure("key", "7"));
  CHECK(*Sysctl(root.path()).read("key") == "7");
}

TEST_CASE("a missing sysctl is missing, is named and is not made") {
  const TempDir root;
  const auto result = Sysctl(root.path()).ensure("net/ipv4/vs/conntrack", "1");
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::missing);
  CHECK(result.error().where.find("net/ipv4/vs/conntrack") != std::string::npos);
  CHECK(std::filesystem::is_empty(root.path()));
}

TEST_CASE("modules are present when loaded or built in") {
  const TempDir root;
  const ModulePaths paths{.loaded = root.path() / "module", .modules = root.path() / "lib"};
  CHECK_FALSE(module_present("ip_vs", paths));
  std::filesystem::create_directories(paths.loaded / "ip_vs");
  CHECK(module_present("ip_vs", paths));
  CHECK(module_present("ip-vs", paths));
  CHECK_FALSE(module_present("ip_vs_rr", paths));
  const auto release = test::kernel_release();
  write_file(paths.modules / release / "modules.builtin",
             "kernel/net/dummy-net.ko\nkernel/net/ip_vs_rr.ko\n");
  CHECK(module_present("ip_vs_rr", paths));
  CHECK(module_present("dummy_net", paths));
  CHECK_FALSE(module_present("net", paths));
}

ModulePaths with_modprobe(const TempDir& root, const std::string& script) {
  const auto program = root.path() / "modprobe";
  write_file(program, "#!/bin/sh\n" + script);
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return {.loaded = root.path() / "module",
          .modules = root.path() / "lib",
          .modprobe = program.string()};
}

TEST_CASE("loading runs modprobe, unless the module is there") {
  const TempDir root;
  const auto log = root.path() / "log";
  const auto paths = with_modprobe(root, "echo \"$@\" >>'" + log.string() + "'\n");
  CHECK(load_module("ip_vs", paths));
  std::filesystem::create_directories(paths.loaded / "ip_vs_rr");
  CHECK(load_module("ip_vs_rr", paths));
  std::ifstream lines(log);
  const std::string text((std::istreambuf_iterator<char>(lines)), {});
  CHECK(text == "-- ip_vs\n");
}

TEST_CASE("several are loaded by one modprobe, and by none if all are there") {
  const TempDir root;
  const auto log = root.path() / "log";
  const auto paths = with_modprobe(root, "echo \"$@\" >>'" + log.string() + "'\nexit 1\n");
  constexpr std::array<std::string_view, 3> kNames = {"ip_vs", "xt-set", "ip_set"};
  std::filesystem::create_directories(paths.loaded / "xt_set");
  load_modules(kNames, paths);
  std::filesystem::create_directories(paths.loaded / "ip_vs");
  std::filesystem::create_directories(paths.loaded / "ip_set");
  load_modules(kNames, paths);
  std::ifstream lines(log);
  const std::string text((std::istreambuf_iterator<char>(lines)), {});
  CHECK(text == "--all --quiet -- ip_vs ip_set\n");
}

TEST_CASE("a module that cannot be loaded: modprobe's words are in the error") {
  const TempDir root;
  const auto paths =
      with_modprobe(root, "echo 'FATAL: Module x not found' >&2; echo 'in y' >&2; exit 3\n");
  const auto status = load_module("ip_vs", paths);
  REQUIRE_FALSE(status);
  CHECK(status.error().kind == ErrorKind::missing);
  CHECK(status.error().where.find("load kernel module ip_vs") == 0);
  CHECK(status.error().where.find("status 3: FATAL: Module x not found in y") != std::string::npos);
}

TEST_CASE("a modprobe that is killed or absent is an error") {
  const TempDir root;
  const auto killed = load_module("ip_vs", with_modprobe(root, "kill -9 $$\n"));
  REQUIRE_FALSE(killed);
  CHECK(killed.error().where.find("signal 9") != std::string::npos);
  auto paths = with_modprobe(root, "");
  paths.modprobe = (root.path() / "absent").string();
  const auto absent = load_module("ip_vs", paths);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().kind == ErrorKind::missing);
}

}  // namespace
}  // namespace ipvsproxier::netlink

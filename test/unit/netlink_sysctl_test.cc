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
  const auto release = test::kernel_release();
  write_file(paths.modules / release / "modules.builtin",
             "kernel/net/dummy-net.ko\nkernel/net/ip_vs_rr.ko\n");
  std::filesystem::create_directories(paths.loaded / "ip_vs");
  CHECK(kernel_has_module("ip_vs", paths) == true);
  CHECK(kernel_has_module("ip-vs", paths) == true);
  CHECK(kernel_has_module("ip_vs_wrr", paths) == false);
  CHECK(kernel_has_module("ip_vs_rr", paths) == true);
  CHECK(kernel_has_module("dummy_net", paths) == true);
  CHECK(kernel_has_module("net", paths) == false);
}

TEST_CASE("functions of the kernel say what is built in where no folder of modules is seen") {
  const TempDir root;
  const ModulePaths paths{.loaded = root.path() / "module",
                          .modules = root.path() / "lib",
                          .symbols = root.path() / "kallsyms"};
  std::filesystem::create_directories(paths.loaded / "ip_set");
  write_file(paths.symbols,
             "0000000000000000 T nft_register_expr\n"
             "0000000000000000 r __ksymtab_register_ip_vs_scheduler\n"
             "0000000000000000 t ip_vs_wrr_schedule\n"
             "0000000000000000 t dummy_xmit.isra.0\n"
             "0000000000000000 T nf_conntrack_in\t[nf_conntrack]\n");
  for (const auto* module : {"nf_tables", "ip_vs_wrr", "dummy", "ip_set"}) {
    CAPTURE(module);
    CHECK(kernel_has_module(module, paths) == true);
  }
  for (const auto* module : {"ip_vs", "ip_vs_rr", "nf_conntrack"}) {
    CAPTURE(module);
    CHECK(kernel_has_module(module, paths) == false);
  }
}

TEST_CASE("a module that nothing tells of may be there") {
  const TempDir root;
  ModulePaths paths{.loaded = root.path() / "module",
                    .modules = root.path() / "lib",
                    .symbols = root.path() / "kallsyms"};
  std::filesystem::create_directories(paths.loaded);
  const auto unknown = kernel_has_module("nf_tables", paths);
  REQUIRE_FALSE(unknown);
  CHECK(to_string(unknown.error()).find("nf_tables cannot be told") != std::string::npos);

  // The list says what is built in alone, so without the folder of what is loaded it denies
  // nothing.
  paths.symbols = root.path() / "symbols";
  write_file(paths.symbols, "0000000000000000 T nft_register_expr\n");
  paths.loaded = root.path() / "absent";
  CHECK(kernel_has_module("nf_tables", paths) == true);
  CHECK_FALSE(kernel_has_module("ip_set", paths));
  // No function of it is known.
  CHECK_FALSE(kernel_has_module("xt_set", paths));
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

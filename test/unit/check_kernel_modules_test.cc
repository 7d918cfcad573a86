#include "proxier/check/kernel_modules.h"

#include <iterator>

#include <catch2/catch.hpp>

#include "proxier/check/kernel_config.h"
#include "test/unit/check_nodes.h"

namespace ipvsproxier::check {
namespace {

constexpr const char* kRelease = "6.1.0-test";
constexpr LoadingRules kByUs{.forbidden = false, .by_us = true, .by_kernel = true};
constexpr LoadingRules kByKernel{.forbidden = false, .by_us = false, .by_kernel = true};

ModuleFact fact_in(const test::HostFolders& host, const std::string& module,
                   const LoadingRules& rules = kByUs, const KernelConfig& config = {}) {
  const bool asked_for = module != "ip_tables";
  return module_fact({module, asked_for}, read_module_index(host.paths(), kRelease), config, rules);
}

TEST_CASE("a module whose files are there can be loaded, by us or by the kernel") {
  test::HostFolders host;
  host.add_module("xt_thing", {"xt_base"});
  host.add_module("xt_base");
  CHECK(fact_in(host, "xt_thing").state == ModuleState::loadable);
  CHECK(fact_in(host, "xt-thing").state == ModuleState::loadable);
  CHECK(fact_in(host, "xt_thing", kByKernel).state == ModuleState::loadable);
  CHECK(fact_in(host, "ip_tables").state == ModuleState::loadable);
  const auto refused = fact_in(host, "ip_tables", kByKernel);
  CHECK(refused.state == ModuleState::refused);
  CHECK(refused.why.find("CAP_SYS_MODULE") != std::string::npos);
}

TEST_CASE("what is loaded or built in needs no file") {
  test::HostFolders host;
  host.put("proc/modules", "ip_vs 200704 2 ip_vs_rr, Live 0x0000000000000000\n");
  host.put("modules/6.1.0-test/modules.builtin", "kernel/drivers/net/dummy-two.ko\n");
  std::filesystem::create_directories(host.path("sys/module/ip_set"));
  host.remove("modules/6.1.0-test/kernel");
  CHECK(fact_in(host, "ip_vs").state == ModuleState::loaded);
  CHECK(fact_in(host, "ip_set").state == ModuleState::loaded);
  CHECK(fact_in(host, "dummy_two").state == ModuleState::built_in);
}

TEST_CASE("a module without its file, or without one that it depends on, is missing") {
  test::HostFolders host;
  host.add_module("upper", {"lower"});
  host.add_module("lower");
  host.remove("modules/6.1.0-test/kernel/lower.ko.xz");
  const auto fact = fact_in(host, "upper");
  CHECK(fact.state == ModuleState::missing);
  CHECK(fact.why.find("kernel/lower.ko.xz is not there") != std::string::npos);
  host.put("proc/modules", "lower 1 0 - Live 0x0\n");
  CHECK(fact_in(host, "upper").state == ModuleState::loadable);
  CHECK(fact_in(host, "nowhere").why.find("has no such module") != std::string::npos);
}

TEST_CASE("lines of modprobe.d and sysctls can forbid to load a module") {
  test::HostFolders host;
  host.add_module("sctp");
  host.put("etc/modprobe.d/a.conf", "# install sctp /bin/false\ninstall sctp /bin/true\n");
  host.put("usr/modprobe.d/b.conf", "blacklist ip-vs\n");
  host.put("run/modprobe.d/c.txt", "install dummy /bin/false\n");
  CHECK(fact_in(host, "sctp").state == ModuleState::refused);
  CHECK(fact_in(host, "sctp").why.find("a.conf") != std::string::npos);
  // By its name modprobe loads it all the same.
  CHECK(fact_in(host, "ip_vs").state == ModuleState::loadable);
  CHECK(fact_in(host, "ip_vs", kByKernel).state == ModuleState::refused);
  CHECK(fact_in(host, "dummy").state == ModuleState::loadable);
  CHECK(fact_in(host, "dummy", {.forbidden = true, .by_us = true}).state == ModuleState::refused);
  CHECK(fact_in(host, "dummy", {.by_us = false, .by_kernel = false}).state == ModuleState::refused);
}

TEST_CASE("without the folder of modules only the kernel's configuration tells") {
  test::HostFolders host;
  host.remove("modules");
  const auto config =
      parse_kernel_config("# CONFIG_DUMMY is not set\nCONFIG_IP_VS=y\nCONFIG_IP_SET=m\n", "config");
  CHECK(fact_in(host, "ip_vs").state == ModuleState::unknown);
  CHECK(fact_in(host, "ip_vs", kByUs, config).state == ModuleState::built_in);
  CHECK(fact_in(host, "ip_set", kByUs, config).state == ModuleState::unknown);
  CHECK(fact_in(host, "dummy", kByUs, config).state == ModuleState::missing);
  CHECK(fact_in(host, "ip_vs_rr", kByUs, config).why.find("CONFIG_IP_VS_RR") != std::string::npos);
}

TEST_CASE("since 6.10 the legacy tables have an option of their own") {
  test::HostFolders host;
  host.remove("modules");
  const auto state = [&](const char* text) {
    return fact_in(host, "ip_tables", kByUs, parse_kernel_config(text, "config")).state;
  };
  CHECK(state("CONFIG_IP_NF_IPTABLES=y\n") == ModuleState::unknown);
  CHECK(state("CONFIG_IP_NF_IPTABLES=m\nCONFIG_IP_NF_IPTABLES_LEGACY=y\n") ==
        ModuleState::built_in);
  CHECK(state("CONFIG_IP_VS=y\n") == ModuleState::missing);
}

TEST_CASE("odd files of modules do no harm") {
  test::HostFolders host;
  host.put("modules/6.1.0-test/modules.dep",
           std::string(":\n: :\nno colon\n/:/\n\0\xff\n", 22) + std::string(100'000, ':'));
  host.put("etc/modprobe.d/x.conf",
           "install\ninstall sctp\nblacklist\n" + std::string(70'000, 'a'));
  CHECK(fact_in(host, "ip_vs").state == ModuleState::missing);
}

TEST_CASE("the kernel's configuration is found where distributions put it") {
  test::HostFolders host;
  CHECK_FALSE(read_kernel_config(host.paths(), kRelease).known());
  host.put("modules/6.1.0-test/config", "CONFIG_IP_VS=m\n");
  CHECK(read_kernel_config(host.paths(), kRelease).value("CONFIG_IP_VS") == "m");
  host.put("boot/config-6.1.0-test", "no configuration\n");
  CHECK(read_kernel_config(host.paths(), kRelease).value("CONFIG_IP_VS") == "m");
  host.put("boot/config-6.1.0-test", "CONFIG_IP_VS=y\nCONFIG_IP_VS_TAB_BITS=12\n");
  CHECK(read_kernel_config(host.paths(), kRelease).value("CONFIG_IP_VS_TAB_BITS") == "12");
  // gzip of "CONFIG_DUMMY=m\n", by gzip 1.12
  constexpr unsigned char kPacked[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                       0x03, 0x73, 0xf6, 0xf7, 0x73, 0xf3, 0x74, 0x8f, 0x77,
                                       0x09, 0xf5, 0xf5, 0x8d, 0xb4, 0xcd, 0xe5, 0x02, 0x00,
                                       0xa9, 0x2e, 0x6a, 0x9a, 0x0f, 0x00, 0x00, 0x00};
  const std::string packed(std::begin(kPacked), std::end(kPacked));
  // One that is cut short says nothing.
  host.put("proc/config.gz", packed.substr(0, packed.size() - 10));
  CHECK(read_kernel_config(host.paths(), kRelease).value("CONFIG_IP_VS") == "y");
  host.put("proc/config.gz", packed);
  CHECK(read_kernel_config(host.paths(), kRelease).value("CONFIG_DUMMY") == "m");
}

TEST_CASE("every module that is needed has an option that is known") {
  for (const auto& need : needs({})) {
    CAPTURE(need.module);
    CHECK(option_of(need.module).starts_with("CONFIG_"));
  }
}

}  // namespace
}  // namespace ipvsproxier::check

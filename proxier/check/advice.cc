#include "proxier/check/advice.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace ipvsproxier::check {

namespace {

// A system by the names that os-release(5) gives it and its kin.
struct System {
  std::string_view name;
  std::string_view id;
};

constexpr auto kSystems = std::to_array<System>({{"Ubuntu", "ubuntu"},
                                                 {"RHEL and its kin", "rhel"},
                                                 {"RHEL and its kin", "centos"},
                                                 {"RHEL and its kin", "rocky"},
                                                 {"RHEL and its kin", "almalinux"},
                                                 {"Talos", "talos"},
                                                 {"Flatcar", "flatcar"},
                                                 {"Bottlerocket", "bottlerocket"}});

constexpr const char* kFlatcar =
    "https://www.flatcar.org/docs/latest/setup/customization/other-settings/";
constexpr const char* kTalos =
    "https://www.talos.dev/v1.10/reference/configuration/v1alpha1/config/";
constexpr const char* kBottlerocket = "https://bottlerocket.dev/en/os/1.24.x/api/settings/kernel";

bool is_legacy_table(const std::string& module) {
  return module.starts_with("ip_tables") || module.starts_with("ip6_tables") ||
         module.starts_with("iptable_") || module.starts_with("ip6table_");
}

void advise_loading(const std::string& module, std::vector<Advice>& advice) {
  advice.push_back({"any",
                    "let `ipvs-proxier --init-only` run before with all privileges, or load it at "
                    "boot: a line \"" +
                        module + "\" in /etc/modules-load.d/ipvs-proxier.conf",
                    ""});
  advice.push_back({"Flatcar", "list it in a file of /etc/modules-load.d", kFlatcar});
  advice.push_back(
      {"Talos", fmt::format("machine.kernel.modules: [{{name: {}}}]", module), kTalos});
  advice.push_back({"Bottlerocket",
                    fmt::format("apiclient set settings.kernel.modules.{}.autoload=true", module),
                    kBottlerocket});
}

void advise_files(const std::string& module, const std::string& release,
                  std::vector<Advice>& advice) {
  if (is_legacy_table(module)) {
    advice.push_back({"RHEL and its kin",
                      "release 10 has no kernel modules of legacy iptables, which this version "
                      "needs: take release 9 or another system",
                      "https://github.com/kubernetes/kops/pull/18179"});
    advice.push_back({"any",
                      "from Linux 6.17 on the kernel must be built with "
                      "CONFIG_NETFILTER_XTABLES_LEGACY",
                      "https://github.com/rancher/rancher/pull/54855"});
    return;
  }
  advice.push_back({"Ubuntu",
                    fmt::format("apt install linux-modules-extra-{}, where this kernel has such a "
                                "package",
                                release),
                    "https://github.com/actions/runner-images/issues/8080"});
  if (module == "dummy")
    advice.push_back({"Ubuntu", "take another kernel than -kvm, which has no dummy links",
                      "https://github.com/kubernetes-sigs/kubespray/issues/9456"});
}

}  // namespace

std::vector<Advice> module_advice(const std::string& module, const ModuleFact& fact,
                                  const std::string& release) {
  std::vector<Advice> advice;
  if (fact.state == ModuleState::missing) advise_files(module, release, advice);
  if (fact.state == ModuleState::refused) advise_loading(module, advice);
  if (fact.state == ModuleState::unknown)
    advice.push_back(
        {"any", "run the check on the node itself, or with the host's /lib/modules mounted", ""});
  return advice;
}

std::vector<Advice> sysctl_advice(const plan::Sysctl& row) {
  auto dotted = row.key;
  std::ranges::replace(dotted, '/', '.');
  return {
      {"any",
       fmt::format("let `ipvs-proxier --init-only` run before with all privileges, or sysctl -w "
                   "{}={}",
                   dotted, row.value),
       ""},
      {"Flatcar", fmt::format("{}={} in a file of /etc/sysctl.d", dotted, row.value), kFlatcar},
      {"Talos", fmt::format("machine.sysctls: {{{}: \"{}\"}}", dotted, row.value), kTalos},
      {"Bottlerocket", fmt::format("[settings.kernel.sysctl] \"{}\" = \"{}\"", dotted, row.value),
       kBottlerocket}};
}

bool is_meant(const Advice& advice, const NodeFacts& facts) {
  if (advice.system == "any") return true;
  const auto is_one = [&](const std::string& id) {
    return std::ranges::any_of(kSystems, [&](const System& system) {
      return system.id == id && system.name == advice.system;
    });
  };
  const bool is_known = std::ranges::any_of(
      kSystems, [&](const System& system) { return system.id == facts.system; });
  // Another system, or a container whose files say nothing of its host: all advice.
  if (!is_known && facts.system != "debian") return true;
  return is_one(facts.system);
}

}  // namespace ipvsproxier::check

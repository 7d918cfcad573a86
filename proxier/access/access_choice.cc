#include "proxier/access/access_choice.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "proxier/access/access_files.h"
#include "proxier/api/text_file.h"

namespace ipvsproxier::access {

namespace {

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

AccessChoice refused(std::string origin, std::string field, std::string message) {
  AccessChoice choice;
  choice.problems.push_back(api::Problem{
      .origin = std::move(origin), .field = std::move(field), .message = std::move(message)});
  return choice;
}

AccessChoice in_cluster(const PodPlace& pod) {
  if (pod.host.empty() || pod.port.empty())
    return refused("", pod.host.empty() ? "KUBERNETES_SERVICE_HOST" : "KUBERNETES_SERVICE_PORT",
                   "is not set, so this is no pod of a cluster: name a kubeconfig "
                   "(clientConnection.kubeconfig, --kubeconfig) or a server (--master)");
  const bool is_ipv6 = pod.host.find(':') != std::string::npos;
  const std::filesystem::path folder(pod.folder);
  AccessSource source{.origin = "the pod's service account",
                      .ca_file = (folder / "ca.crt").native(),
                      .token_file = (folder / "token").native()};
  source.fixed.server =
      fmt::format("https://{}{}{}:{}", is_ipv6 ? "[" : "", pod.host, is_ipv6 ? "]" : "", pod.port);
  if (const auto fault = server_fault(source.fixed.server); !fault.empty())
    return refused("", "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT", fault);
  return AccessChoice{.source = std::move(source)};
}

AccessChoice master_alone(const std::string& master) {
  if (const auto fault = server_fault(master); !fault.empty())
    return refused("", "--master", fault);
  AccessSource source{.origin = "--master"};
  source.fixed.server = master.substr(0, master.find_last_not_of('/') + 1);
  return AccessChoice{.source = std::move(source)};
}

AccessChoice from_kubeconfig(const std::string& path, const std::string& master) {
  AccessChoice unread;
  const auto text = api::read_text_file(path, unread.problems);
  return text ? read_kubeconfig_text(*text, path, master) : unread;
}

}  // namespace

PodPlace PodPlace::from_environment() {
  return PodPlace{.host = environment_value("KUBERNETES_SERVICE_HOST"),
                  .port = environment_value("KUBERNETES_SERVICE_PORT")};
}

AccessChoice choose_access(const std::string& kubeconfig, const std::string& master,
                           const PodPlace& pod) {
  auto choice = !kubeconfig.empty() ? from_kubeconfig(kubeconfig, master)
                : !master.empty()   ? master_alone(master)
                                    : in_cluster(pod);
  if (!choice.source) return choice;
  choice.source->fixed.user_agent = default_user_agent();
  auto files = read_access_files(*choice.source);
  for (auto& problem : files.problems) {
    problem.object = choice.source->origin;
    choice.problems.push_back(std::move(problem));
  }
  if (!files.problems.empty()) choice.source.reset();
  return choice;
}

std::string default_user_agent() {
  utsname system{};
  const std::string_view machine = ::uname(&system) == 0 ? system.machine : "unknown";
  // Go's names of architectures, by which other tools count clients.
  const auto architecture = machine == "x86_64"    ? "amd64"
                            : machine == "aarch64" ? "arm64"
                                                   : machine;
  return fmt::format("ipvs-proxier/{} (linux/{})", IPVS_PROXIER_VERSION, architecture);
}

}  // namespace ipvsproxier::access

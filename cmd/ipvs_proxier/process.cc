#include "cmd/ipvs_proxier/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <utility>

#include <cap-ng.h>
#include <fmt/format.h>

#include "netlink/unique_fd.h"

namespace ipvsproxier::cmd {

namespace {

constexpr std::array<unsigned int, 3> kKept = {CAP_NET_ADMIN, CAP_NET_RAW, CAP_NET_BIND_SERVICE};

netlink::Error failed(int number, std::string what) {
  return netlink::make_error(netlink::Operation::generic, number, std::move(what));
}

bool has(unsigned int capability) {
  return capng_have_capability(CAPNG_EFFECTIVE, capability) == 1;
}

}  // namespace

netlink::Status raise_descriptor_limit() {
  const auto failed = [] {
    return netlink::make_error(netlink::Operation::generic, errno,
                               "raise the limit of open descriptors (RLIMIT_NOFILE)");
  };
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return failed();
  const auto wanted = std::min<rlim_t>(limit.rlim_max, kMostDescriptors);
  if (limit.rlim_cur >= wanted) return {};
  limit.rlim_cur = wanted;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return failed();
  return {};
}

netlink::Status set_oom_score_adj(std::int32_t value, const std::filesystem::path& process) {
  const auto path = process / "oom_score_adj";
  if (std::int32_t now = 0; std::ifstream(path) >> now && now == value) return {};
  const auto text = std::to_string(value);
  const netlink::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  // The kernel takes the number in a single write.
  if (fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return {};
  return netlink::make_error(netlink::Operation::generic, errno,
                             fmt::format("write {} to {}", value, path.string()));
}

netlink::Result<std::vector<std::string>> drop_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed(errno, "set no_new_privs");
  if (capng_get_caps_process() != 0) return failed(errno, "read the capabilities of this process");
  // Without CAP_SETPCAP the bounding set cannot be changed. With no_new_privs that is not needed:
  // started programs get no more privileges than this process.
  const bool bounds = has(CAP_SETPCAP);
  std::vector<unsigned int> kept;
  for (const auto capability : kKept)
    if (has(capability)) kept.push_back(capability);
  capng_clear(CAPNG_SELECT_BOTH);
  constexpr auto kSets =
      static_cast<capng_type_t>(CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_BOUNDING_SET);
  std::vector<std::string> names;
  for (const auto capability : kept) {
    if (capng_update(CAPNG_ADD, kSets, capability) != 0) return failed(EINVAL, "keep a capability");
    names.emplace_back(capng_capability_to_name(capability));
  }
  if (capng_apply(bounds ? CAPNG_SELECT_BOTH : CAPNG_SELECT_CAPS) != 0)
    return failed(errno, "give up capabilities");
  return names;
}

void confine_process(const config::KubeProxyConfig& config, spdlog::logger& logger) {
  // A pod has the score from kubelet, and keeps it without CAP_SYS_RESOURCE.
  if (const auto scored = set_oom_score_adj(config.oom_score_adj); !scored)
    logger.info("oomScoreAdj: {}; it stays as it is", netlink::to_string(scored.error()));
  const auto kept = drop_privileges();
  if (!kept) {
    logger.warn("{}; going on with all privileges", netlink::to_string(kept.error()));
    return;
  }
  logger.info("capabilities kept: {}",
              kept->empty() ? "none" : fmt::format("{}", fmt::join(*kept, ", ")));
}

}  // namespace ipvsproxier::cmd

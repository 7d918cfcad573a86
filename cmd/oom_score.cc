#include "cmd/oom_score.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "netlink/unique_fd.h"

namespace ipvsproxier::cmd {

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

}  // namespace ipvsproxier::cmd

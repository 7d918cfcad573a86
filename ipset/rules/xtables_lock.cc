#include "ipset/rules/xtables_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

using netlink::ErrorKind;
using netlink::Operation;
using netlink::Result;

namespace {

netlink::Error cannot_open(const std::string& path, int error) {
  return netlink::make_error(Operation::rule, error, "open the xtables lock " + path);
}

}  // namespace

netlink::Status XtablesLock::can_open(const std::string& path) {
  // A folder could be opened for reading, but not with O_CREAT.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return cannot_open(path, EISDIR);
  if (const netlink::UniqueFd fd(::open(path.c_str(), O_CLOEXEC | O_RDONLY)); fd) return {};
  const auto folder = std::filesystem::path(path).parent_path();
  if (errno != ENOENT || ::access(folder.c_str(), W_OK | X_OK) != 0)
    return cannot_open(path, errno);
  return {};
}

Result<XtablesLock> XtablesLock::acquire(const std::string& path, std::chrono::milliseconds wait) {
  // Mode and flags as in iptables, so that either program may create the file.
  netlink::UniqueFd fd(::open(path.c_str(), O_CREAT | O_CLOEXEC | O_RDONLY, 0600));
  if (!fd) return cannot_open(path, errno);

  // flock has no timeout, and interrupting it would take a signal to the whole process.
  constexpr std::chrono::milliseconds kPause{20};
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + wait;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return netlink::make_error(Operation::rule, errno, "take the xtables lock " + path);
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero())
      return netlink::Error{
          .kind = ErrorKind::busy,
          .where = fmt::format("another program has held the xtables lock {} for {} ms", path,
                               wait.count())};
    std::this_thread::sleep_for(std::min<Clock::duration>(left, kPause));
  }
  return XtablesLock(std::move(fd));
}

}  // namespace ipvsproxier::ipset

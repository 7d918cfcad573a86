#include "ipset/rules/xtables_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

using netlink::ErrorKind;
using netlink::Operation;
using netlink::Result;

Result<XtablesLock> XtablesLock::acquire(const std::string& path, std::chrono::milliseconds wait) {
  // Mode and flags as in iptables, so that either program may create the file.
  netlink::UniqueFd fd(::open(path.c_str(), O_CREAT | O_CLOEXEC | O_RDONLY, 0600));
  if (!fd) return netlink::make_error(Operation::rule, errno, "open the xtables lock " + path);

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

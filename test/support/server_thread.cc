#include "test/support/server_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace ipvsproxier::test {

netlink::Status ServerThread::start(std::function<void()> serve) {
  stop_ = netlink::UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_) return netlink::make_error(netlink::Operation::generic, errno, "eventfd");
  thread_ = std::thread(std::move(serve));
  return {};
}

ServerThread::~ServerThread() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

}  // namespace ipvsproxier::test

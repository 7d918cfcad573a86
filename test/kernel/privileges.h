#pragma once

// WithoutNetAdmin: the calling thread has no CAP_NET_ADMIN in the scope. Throws if that cannot be.

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace ipvsproxier::test {

class WithoutNetAdmin {
 public:
  WithoutNetAdmin() {
    call(SYS_capget, before_);
    auto reduced = before_;
    reduced[0].effective &= ~(1U << CAP_NET_ADMIN);
    call(SYS_capset, reduced);
  }
  WithoutNetAdmin(const WithoutNetAdmin&) = delete;
  WithoutNetAdmin& operator=(const WithoutNetAdmin&) = delete;
  ~WithoutNetAdmin() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    syscall(SYS_capset, &header, before_.data());
  }

 private:
  using Sets = std::array<__user_cap_data_struct, 2>;

  static void call(long number, Sets& sets) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    if (syscall(number, &header, sets.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "capabilities");
  }

  Sets before_{};
};

}  // namespace ipvsproxier::test

#include "netlink/sysctl.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "netlink/text.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::netlink {

namespace {

Error failure(int sys_errno, std::string what) {
  auto error = make_error(Operation::generic, sys_errno, std::move(what));
  if (sys_errno == EROFS) error.kind = ErrorKind::denied;
  if (error.kind == ErrorKind::denied)
    error.where += ": needs CAP_NET_ADMIN and a writable /proc/sys";
  return error;
}

}  // namespace

Result<std::string> Sysctl::read(std::string_view key) const {
  const auto path = root_ / key;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return make_error(Operation::generic, errno, fmt::format("read sysctl {}", key));
  std::array<char, 4096> buffer;
  const auto size = ::read(fd.get(), buffer.data(), buffer.size());
  if (size < 0) return make_error(Operation::generic, errno, fmt::format("read sysctl {}", key));
  return std::string(trimmed({buffer.data(), static_cast<std::size_t>(size)}));
}

bool Sysctl::is_fixed(std::string_view key) const {
  struct stat file {};
  const auto path = root_ / key;
  return ::stat(path.c_str(), &file) == 0 && (file.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
}

Result<bool> Sysctl::ensure(std::string_view key, std::string_view value) const {
  const auto now = read(key);
  if (!now) return now.error();
  if (*now == trimmed(value)) return false;
  const auto path = root_ / key;
  const bool writes = access_ == Access::write;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | (writes ? O_TRUNC : 0) | O_CLOEXEC));
  const auto what = fmt::format("write {} to sysctl {} (now {})", value, key, *now);
  if (!fd) return failure(errno, what);
  if (!writes) return true;
  // The kernel takes a sysctl value in a single write.
  if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return failure(errno != 0 ? errno : EIO, what);
  return true;
}

bool ipv6_is_disabled(const std::filesystem::path& root) {
  const Sysctl sysctls(root);
  const auto is_set = [&](const std::string& link) {
    const auto value = sysctls.read(fmt::format("net/ipv6/conf/{}/disable_ipv6", link));
    return value && *value == "1";
  };
  if (!is_set("all")) return false;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root / "net/ipv6/conf", error), end;
       !error && it != end; it.increment(error)) {
    const auto link = it->path().filename().string();
    if (link != "all" && link != "default" && link != "lo" && !is_set(link)) return false;
  }
  return true;
}

}  // namespace ipvsproxier::netlink

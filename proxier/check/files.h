#pragma once

// Files of a host that this process does not control. Blocks as reading them does; any thread.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ipvsproxier::check {

// The roots of what is read; tests give folders of their own.
struct HostPaths {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
  std::filesystem::path modules = "/lib/modules";
  std::filesystem::path boot = "/boot";
  std::filesystem::path etc = "/etc";
  std::filesystem::path usr_lib = "/usr/lib";
  std::filesystem::path run = "/run";
  std::filesystem::path docker_swarm = "/var/lib/docker/swarm";
};

inline constexpr std::size_t kMostFileBytes = std::size_t{16} << 20U;

// The first `most` bytes of a regular file (those of /proc and /sys are); nullopt if it cannot be
// opened or is something else, like a pipe that would never end.
std::optional<std::string> read_some(const std::filesystem::path& path,
                                     std::size_t most = kMostFileBytes);

// The words between blanks, and the lines, of a text.
std::vector<std::string_view> words_of(std::string_view text);
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace ipvsproxier::check

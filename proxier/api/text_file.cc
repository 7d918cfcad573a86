#include "proxier/api/text_file.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::api {

std::optional<std::string> read_text_file(const std::string& path, api::Problems& problems) {
  const auto refuse = [&](std::string message) {
    problems.push_back(api::Problem{.origin = path, .message = std::move(message)});
    return std::nullopt;
  };
  const auto system_message = [] { return std::generic_category().message(errno); };
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return refuse(fmt::format("cannot be read: {}", system_message()));
  std::string text;
  std::array<char, 65536> piece{};
  while (stream.read(piece.data(), piece.size()), stream.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMaxTextBytes)
      return refuse(fmt::format("cannot be read: larger than {} MiB", kMaxTextBytes >> 20U));
  }
  if (stream.bad()) return refuse(fmt::format("cannot be read: {}", system_message()));
  return text;
}

}  // namespace ipvsproxier::api

#include "proxier/check/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "netlink/unique_fd.h"

namespace ipvsproxier::check {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return parts;
    const auto end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
}

}  // namespace

std::optional<std::string> read_some(const std::filesystem::path& path, std::size_t most) {
  const netlink::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  std::string text;
  constexpr std::size_t kStep = 65536;
  while (text.size() < most) {
    const auto before = text.size();
    text.resize(std::min(most, before + kStep));
    const auto size = ::read(fd.get(), text.data() + before, text.size() - before);
    text.resize(before + (size > 0 ? static_cast<std::size_t>(size) : 0));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::nullopt;
    if (size == 0) break;
  }
  return text;
}

std::vector<std::string_view> words_of(std::string_view text) {
  return split(text, kBlanks);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  return split(text, "\n");
}

}  // namespace ipvsproxier::check

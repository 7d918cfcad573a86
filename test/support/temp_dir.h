#pragma once

// A folder of a test's own, gone with it; and the name of the running kernel. Throws if there can
// be none.

#include <sys/utsname.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace ipvsproxier::test {

class TempDir {
 public:
  TempDir() {
    auto name = (std::filesystem::temp_directory_path() / "ipvs-proxier-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::system_error(errno, std::generic_category(), "make a temporary folder");
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string kernel_release() {
  utsname system{};
  if (uname(&system) != 0) throw std::system_error(errno, std::generic_category(), "uname");
  return system.release;
}

}  // namespace ipvsproxier::test

#pragma once

// Whole files of a test. Throws if one cannot be read or written.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace ipvsproxier::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.native());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// New or in place of what it held.
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + path.native());
}

}  // namespace ipvsproxier::test

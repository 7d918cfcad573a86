#pragma once

// FileStamp: what the system tells of a file without reading it. Whoever changes the file changes
// at least one of these. A value; any thread.

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace ipvsproxier::manifests {

struct FileStamp {
  bool exists = false;
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970: contents
  std::int64_t changed = 0;   // contents, or what else belongs to the file

  // The same file, whatever its contents.
  bool is_same_file(const FileStamp& other) const {
    return exists == other.exists && device == other.device && inode == other.inode;
  }
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of the file or folder to which links lead.
FileStamp stamp_of(const std::string& path);

}  // namespace ipvsproxier::manifests

#pragma once

// Manifest files that a test writes, replaces and links, and a follower of them.

#include <poll.h>

#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/manifests/manifest_follower.h"
#include "test/support/files.h"

namespace ipvsproxier::test {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

// A document of its own in a file of several.
inline std::string service(const std::string& name, const std::string& ip = "10.0.0.1") {
  return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name +
         "}\nspec: {clusterIP: " + ip + ", ports: [{port: 80}]}\n";
}
inline std::string service(const std::string& name, int number) {
  return service(name, "10.0.0." + std::to_string(number));
}

// As careful writers do it.
inline void replace(const fs::path& path, const std::string& text) {
  const auto temporary = path.parent_path() / ".new";
  write_file(temporary, text);
  fs::rename(temporary, path);
}

inline void relink(const fs::path& path, const std::string& target) {
  const auto temporary = path.parent_path() / ".link";
  fs::create_symlink(target, temporary);
  fs::rename(temporary, path);
}

// A follower, and all that it has said by now. inotify's events are there when the call that causes
// them has returned, so nothing waits for a clock.
struct Following {
  manifests::ManifestFollower follower;
  std::map<api::ObjectKey, api::Object> objects;
  manifests::ManifestUpdate last;

  explicit Following(const fs::path& path) : follower(path.string(), "n1") { update(); }

  bool is_readable() const {
    pollfd waiting{.fd = follower.fd(), .events = POLLIN, .revents = 0};
    return poll(&waiting, 1, 0) == 1;
  }
  void update() {
    last = follower.update();
    using api::ObjectKind;
    for (const auto& [name, service] : last.changes.services)
      note({ObjectKind::service, name}, service);
    for (const auto& [name, slice] : last.changes.slices)
      note({ObjectKind::endpoint_slice, name}, slice);
    if (last.changes.node) note({ObjectKind::node, {"", "n1"}}, *last.changes.node);
  }
  template <typename T>
  void note(const api::ObjectKey& key, const std::optional<T>& object) {
    if (object)
      objects.insert_or_assign(key, *object);
    else
      CHECK(objects.erase(key) == 1);
  }
  // Services, slices and Nodes that the last update named.
  std::size_t changed() const {
    const auto& changes = last.changes;
    return changes.services.size() + changes.slices.size() + (changes.node ? 1 : 0);
  }
  bool is_complete() const { return last.changes.complete == true; }
  // Whether there was anything to tell; then it is updated.
  bool settle() {
    if (!is_readable() || !follower.take_events()) return false;
    update();
    return true;
  }
  // "web=10.0.0.1"
  Lines lines() const {
    Lines lines;
    for (const auto& [key, object] : objects)
      lines.push_back(key.name.name + "=" +
                      std::get<api::Service>(object).cluster_ips.at(0).to_string());
    return lines;
  }
};

}  // namespace ipvsproxier::test

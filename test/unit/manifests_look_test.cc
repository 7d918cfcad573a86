// Changes that are found without inotify (manifest_follower.h).

#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "proxier/manifests/manifest_follower.h"
#include "test/support/temp_dir.h"
#include "test/unit/manifest_files.h"

namespace ipvsproxier::manifests {
namespace {

namespace fs = std::filesystem;
using test::Following;
using test::Lines;
using test::relink;
using test::replace;
using test::service;
using test::write_file;

// Whether the looks of two rounds find something; then it is updated.
bool look(Following& following) {
  bool is_news = false;
  for (std::size_t i = 0; i < 2 * following.follower.looks(); ++i)
    is_news |= following.follower.look();
  if (is_news) following.update();
  return is_news;
}

// Of some file systems inotify reports nothing: here its reports are not asked for.
TEST_CASE("changes that inotify does not report are found by looking") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1));
  fs::create_directory(temp.path() / "..one");
  write_file(temp.path() / "..one" / "dns.yaml", service("dns", 1));
  fs::create_symlink("..one", temp.path() / "..data");
  fs::create_symlink("..data/dns.yaml", temp.path() / "dns.yaml");
  Following following(temp.path());
  CHECK_FALSE(look(following));
  SECTION("an edit in place, once its writer rests") {
    write_file(temp.path() / "a.yaml", service("web", 2) + service("other", 3));
    CHECK_FALSE(following.follower.look());
    write_file(temp.path() / "a.yaml", service("web", 2));
    CHECK_FALSE(following.follower.look());
    CHECK(following.follower.look());
    following.update();
    CHECK(following.changed() == 1);
    CHECK(following.lines() == Lines{"dns=10.0.0.1", "web=10.0.0.2"});
  }
  SECTION("a file that is replaced") {
    replace(temp.path() / "a.yaml", service("web", 3));
    CHECK(look(following));
    CHECK(following.lines() == Lines{"dns=10.0.0.1", "web=10.0.0.3"});
  }
  SECTION("a new file, and its end") {
    write_file(temp.path() / "b.yaml", service("new", 4));
    CHECK(look(following));
    CHECK(following.lines() == Lines{"dns=10.0.0.1", "new=10.0.0.4", "web=10.0.0.1"});
    CHECK_FALSE(look(following));
    fs::remove(temp.path() / "b.yaml");
    CHECK(look(following));
    CHECK(following.lines() == Lines{"dns=10.0.0.1", "web=10.0.0.1"});
  }
  SECTION("a swapped ConfigMap") {
    fs::create_directory(temp.path() / "..two");
    write_file(temp.path() / "..two" / "dns.yaml", service("dns", 5));
    relink(temp.path() / "..data", "..two");
    CHECK(look(following));
    CHECK(following.lines() == Lines{"dns=10.0.0.5", "web=10.0.0.1"});
  }
  CHECK_FALSE(look(following));
}

TEST_CASE("a file alone that inotify does not report is found by looking") {
  const test::TempDir temp;
  const auto file = temp.path() / "a.yaml";
  write_file(file, service("web", 1));
  Following following(file);
  CHECK_FALSE(look(following));
  write_file(file, service("web", 2));
  CHECK(look(following));
  CHECK(following.lines() == Lines{"web=10.0.0.2"});
  replace(file, service("web", 3));
  CHECK(look(following));
  CHECK(following.lines() == Lines{"web=10.0.0.3"});
  fs::remove(file);
  CHECK(look(following));
  CHECK(following.lines() == Lines{"web=10.0.0.3"});
}

TEST_CASE("one look asks about so many files of a large folder") {
  constexpr std::size_t kFiles = 3 * ManifestFollower::kFilesALook;
  const test::TempDir temp;
  const auto name = [](std::size_t number) { return std::to_string(1000 + number) + ".yaml"; };
  for (std::size_t i = 0; i < kFiles; ++i)
    write_file(temp.path() / name(i), service("s" + std::to_string(i), "10.0.0.1"));
  Following following(temp.path());
  CHECK(following.follower.looks() == 3);
  CHECK_FALSE(look(following));
  write_file(temp.path() / name(kFiles - 1), service("s" + std::to_string(kFiles - 1), 2));
  std::size_t found = 0;
  for (std::size_t i = 0; i < 2 * following.follower.looks(); ++i)
    found += following.follower.look() ? 1 : 0;
  CHECK(found == 1);
  following.update();
  CHECK(following.changed() == 1);
}

}  // namespace
}  // namespace ipvsproxier::manifests

#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "proxier/manifests/manifest_follower.h"
#include "proxier/manifests/manifest_source.h"
#include "test/support/temp_dir.h"
#include "test/unit/manifest_files.h"

namespace ipvsproxier::manifests {
namespace {

namespace fs = std::filesystem;
using test::Following;
using test::relink;
using test::replace;
using test::service;
using test::write_file;

// Does at random what can be done to a folder behind a link with two versions.
class RandomFolder {
 public:
  RandomFolder(fs::path root, std::uint32_t seed) : root_(std::move(root)), random_(seed) {
    for (const auto* name : {"one", "two", "elsewhere"}) fs::create_directory(root_ / name);
    for (const auto* name : {"one", "two"}) write_file(root_ / name / "0.yaml", text());
    for (const auto* name : {"x", "y"}) write_file(root_ / "elsewhere" / name, text());
    fs::create_symlink("one", root_ / "link");
  }

  fs::path path() const { return root_ / "link"; }

  void act() {
    const auto folder = root_ / (number(4) == 0 ? "two" : "one");
    const auto file = folder / (std::to_string(1 + number(3)) + ".yaml");
    switch (number(10)) {
      case 0:
      case 1:
        return edit(file);
      case 2:
        return replace(file, text());
      case 3:
        fs::remove(file);
        return;
      case 4:
        if (fs::exists(file)) fs::rename(file, folder / (std::to_string(1 + number(3)) + ".yaml"));
        return;
      case 5:
        return relink(file, number(2) == 0 ? "../elsewhere/x" : "../hop/y");
      case 6:
        return relink(root_ / "hop", "elsewhere");
      case 7:
        return replace(root_ / "elsewhere" / (number(2) == 0 ? "x" : "y"), text());
      case 8:
        return relink(path(), number(2) == 0 ? "one" : (root_ / "two").string());
      default:
        return edit(root_ / "elsewhere" / (number(2) == 0 ? "x" : "y"));
    }
  }

 private:
  int number(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  // Few names in many files: they cover and uncover each other.
  std::string text() {
    std::string text = "apiVersion: v1\nkind: List\nitems: []\n";
    for (int count = number(4); count > 0; --count)
      text += service("s" + std::to_string(number(5)), 1 + number(200));
    return text;
  }
  void edit(const fs::path& file) {
    if (!fs::is_symlink(file) || fs::exists(file)) write_file(file, text());
  }

  fs::path root_;
  std::mt19937 random_;
};

TEST_CASE("what a follower has said equals what a fresh reading finds") {
  const auto seed = GENERATE(range(1U, 41U));
  CAPTURE(seed);
  const test::TempDir temp;
  RandomFolder folder(temp.path(), seed);
  Following following(folder.path());
  std::mt19937 random(seed);
  int compared = 0;
  for (int step = 0; step < 60; ++step) {
    CAPTURE(step);
    for (auto actions = random() % 4; actions > 0; --actions) folder.act();
    following.settle();
    const auto fresh = load_manifests(folder.path().string(), "n1");
    if (!fresh.complete) continue;  // a dangling link: it may keep more
    ++compared;
    std::map<ObjectKey, api::Object> expected;
    for (const auto& object : fresh.objects) expected.emplace(key_of(object), object);
    REQUIRE(following.objects == expected);
    REQUIRE(following.is_complete());
  }
  CHECK(compared > 10);
}

}  // namespace
}  // namespace ipvsproxier::manifests

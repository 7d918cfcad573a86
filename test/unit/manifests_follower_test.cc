#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "proxier/manifests/manifest_follower.h"
#include "test/support/temp_dir.h"
#include "test/unit/manifest_files.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::manifests {
namespace {

namespace fs = std::filesystem;
using test::Following;
using test::Lines;
using test::lines_of;
using test::relink;
using test::replace;
using test::service;
using test::write_file;

TEST_CASE("a follower reads everything first, and nothing when nothing happened") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1));
  Following following(temp.path());
  CHECK(following.lines() == Lines{"web=10.0.0.1"});
  CHECK(following.is_complete());
  CHECK_FALSE(following.settle());  // its own reading is no news
  following.update();
  CHECK(following.changed() == 0);
  CHECK_FALSE(following.follower.take_events());
}

TEST_CASE("files of a folder come, change and go") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1));
  Following following(temp.path());
  SECTION("an edit in place") {
    write_file(temp.path() / "a.yaml", service("web", 2));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.2"});
  }
  SECTION("a file that is replaced") {
    replace(temp.path() / "a.yaml", service("web", 3));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.3"});
  }
  SECTION("a new file, and its end") {
    write_file(temp.path() / "b.yaml", service("dns", 4));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.4", "web=10.0.0.1"});
    fs::remove(temp.path() / "b.yaml");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.1"});
  }
  SECTION("a new name") {
    fs::rename(temp.path() / "a.yaml", temp.path() / "b.yaml");
    CHECK(following.settle());
    CHECK(following.changed() == 1);
    CHECK(following.last.changes.services.at({"default", "web"}));
    CHECK(std::get<api::Service>(following.objects.begin()->second).origin ==
          (temp.path() / "b.yaml").string());
  }
  SECTION("a name that is no manifest's any more") {
    write_file(temp.path() / "b.yaml", service("dns", 4));
    fs::rename(temp.path() / "a.yaml", temp.path() / "a.off");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.4"});
  }
  SECTION("a hard link, and a file that gets its name when it is written") {
    const test::TempDir other;
    write_file(other.path() / "x", service("dns", 5));
    fs::create_hard_link(other.path() / "x", temp.path() / "b.yaml");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.5", "web=10.0.0.1"});
  }
  SECTION("foreign and hidden files are not looked at") {
    write_file(temp.path() / "notes.txt", "x");
    write_file(temp.path() / ".hidden.yaml", service("dns", 6));
    fs::create_directory(temp.path() / "deeper");
    CHECK_FALSE(following.settle());
  }
  SECTION("only what changed is read again") {
    write_file(temp.path() / "b.yaml", service("dns", 7));
    CHECK(following.settle());
    CHECK(following.changed() == 1);
  }
}

TEST_CASE("a file is not read before its writer closes it") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1) + service("dns", 2));
  Following following(temp.path());
  SECTION("one that is there") {
    std::ofstream writer(temp.path() / "a.yaml");
    writer << service("web", 3) << std::flush;
    CHECK_FALSE(following.settle());
    write_file(temp.path() / "b.yaml", service("other", 4));
    CHECK(following.settle());  // of b.yaml only
    CHECK(following.lines() == Lines{"dns=10.0.0.2", "other=10.0.0.4", "web=10.0.0.1"});
    writer << service("dns", 5);
    writer.close();
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.5", "other=10.0.0.4", "web=10.0.0.3"});
  }
  SECTION("one that was closed and is written again at once") {
    write_file(temp.path() / "a.yaml", service("web", 3) + service("dns", 4));
    std::ofstream writer(temp.path() / "a.yaml");
    writer << service("web", 5) << std::flush;
    CHECK_FALSE(following.settle());
    writer << service("dns", 6);
    writer.close();
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.6", "web=10.0.0.5"});
  }
  SECTION("a new one") {
    std::ofstream writer(temp.path() / "b.yaml");
    CHECK_FALSE(following.settle());
    writer << service("other", 3) << std::flush;
    CHECK_FALSE(following.settle());
    writer.close();
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.2", "other=10.0.0.3", "web=10.0.0.1"});
    CHECK(following.is_complete());
  }
  SECTION("one that is deleted meanwhile") {
    write_file(temp.path() / "b.yaml", service("other", 3));
    std::ofstream writer(temp.path() / "a.yaml");
    writer << service("web", 3) << std::flush;
    fs::remove(temp.path() / "a.yaml");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"other=10.0.0.3"});
  }
}

// As the kubelet writes a volume.
struct ConfigMap {
  fs::path path;
  int version = 0;

  void publish(const std::map<std::string, std::string>& files) {
    const auto folder = "..version" + std::to_string(++version);
    fs::create_directory(path / folder);
    for (const auto& [name, text] : files) write_file(path / folder / name, text);
    fs::create_symlink(folder, path / "..data_tmp");
    fs::rename(path / "..data_tmp", path / "..data");
    for (const auto& [name, text] : files)
      if (!fs::is_symlink(path / name)) fs::create_symlink("..data/" + name, path / name);
    for (const auto& entry : fs::directory_iterator(path)) {
      const auto name = entry.path().filename().string();
      if (name[0] != '.' && !files.contains(name)) fs::remove(entry.path());
    }
    if (version > 1) fs::remove_all(path / ("..version" + std::to_string(version - 1)));
  }
};

TEST_CASE("a mounted ConfigMap is swapped again and again") {
  const test::TempDir temp;
  ConfigMap map{.path = temp.path()};
  map.publish({{"a.yaml", service("web", 1)}, {"b.yaml", service("dns", 2)}});
  const bool as_file = GENERATE(false, true);
  Following following(as_file ? temp.path() / "a.yaml" : temp.path());
  for (int number = 3; number < 8; ++number) {
    map.publish({{"a.yaml", service("web", number)}, {"c.yaml", service("dns", number)}});
    CHECK(following.settle());
    const auto text = std::to_string(number);
    CHECK(following.lines() == (as_file ? Lines{"web=10.0.0." + text}
                                        : Lines{"dns=10.0.0." + text, "web=10.0.0." + text}));
    CHECK(lines_of(following.last.problems).empty());
  }
}

TEST_CASE("links lead to what is followed") {
  const test::TempDir temp;
  const auto one = temp.path() / "one";
  const auto two = temp.path() / "two";
  const auto path = temp.path() / "link";
  for (const auto& folder : {one, two}) fs::create_directory(folder);
  write_file(one / "a.yaml", service("web", 1));
  write_file(two / "a.yaml", service("web", 2));
  SECTION("PATH is a link to a folder, relative, and is swapped") {
    fs::create_symlink("one", path);
    Following following(path);
    CHECK(following.lines() == Lines{"web=10.0.0.1"});
    write_file(two / "a.yaml", service("web", 3));
    CHECK_FALSE(following.settle());
    relink(path, two.string());
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.3"});
    write_file(one / "a.yaml", service("web", 4));  // which is not followed any more
    CHECK_FALSE(following.settle());
    write_file(two / "a.yaml", service("web", 5));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.5"});
  }
  SECTION("PATH is a link to a file that is edited, replaced, and swapped") {
    relink(path, "one/a.yaml");
    Following following(path);
    write_file(one / "a.yaml", service("web", 3));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.3"});
    replace(one / "a.yaml", service("web", 4));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.4"});
    relink(path, "two/a.yaml");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.2"});
  }
  SECTION("a link in the folder leads to a file elsewhere through another link") {
    fs::create_symlink("../link/a.yaml", one / "b.yaml");
    fs::create_symlink("two", path);
    write_file(two / "a.yaml", service("dns", 2));
    Following following(one);
    CHECK(following.lines() == Lines{"dns=10.0.0.2", "web=10.0.0.1"});
    write_file(two / "a.yaml", service("dns", 3));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.3", "web=10.0.0.1"});
    fs::create_directory(temp.path() / "three");
    write_file(temp.path() / "three" / "a.yaml", service("dns", 4));
    relink(path, "three");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.4", "web=10.0.0.1"});
    fs::remove(one / "b.yaml");
    CHECK(following.settle());
    write_file(temp.path() / "three" / "a.yaml", service("dns", 5));
    CHECK_FALSE(following.settle());
  }
  SECTION("a link that dangles keeps its objects until it leads somewhere again") {
    fs::create_symlink("../two/a.yaml", one / "b.yaml");
    write_file(two / "a.yaml", service("dns", 2));
    Following following(one);
    fs::remove(two / "a.yaml");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.2", "web=10.0.0.1"});
    CHECK(following.last.problems.size() == 2);  // cannot be read; one object stays
    write_file(two / "a.yaml", service("dns", 3));
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"dns=10.0.0.3", "web=10.0.0.1"});
    CHECK(following.last.mended == Lines{(one / "b.yaml").string()});
  }
  SECTION("links in a circle end") {
    fs::create_symlink("link", path);
    Following following(path);
    CHECK(following.last.problems.size() == 1);
    relink(path, "one");
    CHECK(following.settle());
    CHECK(following.lines() == Lines{"web=10.0.0.1"});
  }
}

TEST_CASE("a folder that is gone keeps all, and is found again") {
  const test::TempDir temp;
  const auto path = temp.path() / "deep" / "manifests";
  Following following(path);
  CHECK_FALSE(following.is_complete());
  CHECK(lines_of(following.last.problems) == Lines{"error: " + path.string() + ": does not exist"});

  fs::create_directories(path);
  write_file(path / "a.yaml", service("web", 1));
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.1"});
  CHECK(following.is_complete());
  CHECK(following.last.mended == Lines{path.string()});

  fs::remove_all(temp.path() / "deep");
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.1"});
  CHECK(following.is_complete());
  CHECK(following.last.problems.size() == 1);

  fs::create_directory(temp.path() / "deep");
  following.settle();
  CHECK(following.last.problems.empty());  // not said again
  fs::create_directory(path);
  CHECK(following.settle());
  CHECK(lines_of(following.last.problems) ==
        Lines{"error: " + path.string() + ": holds no file *.yaml, *.yml or *.json"});
  CHECK(following.lines() == Lines{"web=10.0.0.1"});
  write_file(path / "b.yaml", service("dns", 2));
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"dns=10.0.0.2"});
  write_file(path / "b.yaml", service("dns", 3));
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"dns=10.0.0.3"});
}

TEST_CASE("a single file that is replaced, emptied, removed and made again") {
  const test::TempDir temp;
  const auto path = temp.path() / "all";  // a file that is named need not be called *.yaml
  write_file(path, service("web", 1));
  Following following(path);
  write_file(path, service("web", 2));
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.2"});
  replace(path, service("web", 3));
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.3"});
  write_file(path, "");
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.3"});
  fs::remove(path);
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.3"});
  {
    std::ofstream writer(path);
    CHECK_FALSE(following.settle());
    writer << service("web", 4);
  }
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"web=10.0.0.4"});
  CHECK(following.is_complete());
}

TEST_CASE("a broken file is incomplete until it was good once") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1) + "---\nkind: [\n");
  write_file(temp.path() / "empty.yaml", "# nothing yet\n");
  Following following(temp.path());
  CHECK(following.lines() == Lines{"web=10.0.0.1"});
  CHECK_FALSE(following.is_complete());
  CHECK(following.last.problems.size() == 1);
  following.update();
  CHECK_FALSE(following.is_complete());
  CHECK(following.last.problems.empty());
  write_file(temp.path() / "a.yaml", service("web", 2));
  CHECK(following.settle());
  CHECK(following.is_complete());
  CHECK(following.last.mended == Lines{(temp.path() / "a.yaml").string()});
}

TEST_CASE("a folder of nothing but notes is no empty cluster") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", "# nothing yet\n");
  Following following(temp.path());
  CHECK_FALSE(following.is_complete());
  CHECK(lines_of(following.last.problems) ==
        Lines{"error: " + temp.path().string() + ": holds no objects, not even a list"});
  write_file(temp.path() / "a.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
  CHECK(following.settle());
  CHECK(following.is_complete());
}

TEST_CASE("news that the kernel had to drop are made up for by reading all again") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1));
  Following following(temp.path());
  std::ofstream writer(temp.path() / "b.yaml");  // whose end is among what is lost
  std::size_t most = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
  REQUIRE(most > 0);
  REQUIRE(most < 1'000'000);
  for (std::size_t i = 0; i < most; ++i)  // two events each
    fs::rename(temp.path() / (i % 2 == 0 ? "a.yaml" : "x"),
               temp.path() / (i % 2 == 0 ? "x" : "a.yaml"));
  writer << service("dns", 2);
  writer.close();
  fs::remove(temp.path() / "x");
  write_file(temp.path() / "a.yaml", service("web", 3));
  CHECK(following.settle());
  CHECK(following.lines() == Lines{"dns=10.0.0.2", "web=10.0.0.3"});
}

TEST_CASE("what the system would not read is read again") {
  const test::TempDir temp;
  const auto file = temp.path() / "a.yaml";
  write_file(file, service("web", 1));
  const bool folder = GENERATE(false, true);
  Following following(folder ? temp.path() : file);
  CHECK_FALSE(following.last.try_again);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto none = before;
  none.rlim_cur = 1;  // that poll() takes
  write_file(file, service("web", 2));
  setrlimit(RLIMIT_NOFILE, &none);
  const bool noticed = following.settle();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(noticed);
  CHECK(following.lines() == Lines{"web=10.0.0.1"});
  CHECK(following.last.try_again);
  following.update();  // without any news
  CHECK(following.lines() == Lines{"web=10.0.0.2"});
  CHECK_FALSE(following.last.try_again);
  CHECK(following.last.mended == Lines{file.string()});
}

TEST_CASE("without inotify everything is read at first, and that is a problem") {
  const test::TempDir temp;
  write_file(temp.path() / "a.yaml", service("web", 1));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  auto none = before;
  none.rlim_cur = 0;
  std::optional<ManifestFollower> follower;
  setrlimit(RLIMIT_NOFILE, &none);
  follower.emplace(temp.path().string(), "n1");
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(follower->fd() == -1);
  const auto update = follower->update();
  CHECK(update.changes.services.size() == 1);
  REQUIRE(update.problems.size() == 1);
  CHECK(lines_of(update.problems)[0].find("changes are noticed only every ipvs.syncPeriod") !=
        std::string::npos);
  CHECK(follower->update().problems.empty());
}

}  // namespace
}  // namespace ipvsproxier::manifests

#include "ipset/rules/xtables_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <catch2/catch.hpp>

namespace ipvsproxier::ipset {
namespace {

using netlink::ErrorKind;
using std::chrono::milliseconds;

struct TemporaryFolder {
  TemporaryFolder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string path = (std::filesystem::temp_directory_path() / "lock-XXXXXX").string();
};

TEST_CASE("the xtables lock is held by one at a time, and only as long as the object lives") {
  const TemporaryFolder folder;
  const auto path = folder.path + "/xtables.lock";
  {
    const auto held = XtablesLock::acquire(path, milliseconds(0));
    REQUIRE(held);
    const auto second = XtablesLock::acquire(path, milliseconds(30));
    REQUIRE_FALSE(second);
    CHECK(second.error().kind == ErrorKind::busy);
    CHECK_THAT(second.error().where, Catch::Contains(path));
  }
  CHECK(XtablesLock::acquire(path, milliseconds(0)));
}

TEST_CASE("a lock file that cannot be made is an error that names it") {
  const TemporaryFolder folder;
  const auto path = folder.path + "/missing/xtables.lock";
  const auto lock = XtablesLock::acquire(path, milliseconds(0));
  REQUIRE_FALSE(lock);
  CHECK(lock.error().kind == ErrorKind::missing);
  CHECK_THAT(lock.error().where, Catch::Contains(path));
}

TEST_CASE("whether the lock file can be opened is known without making it") {
  const TemporaryFolder folder;
  const auto path = folder.path + "/xtables.lock";
  CHECK(XtablesLock::can_open(path));
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(XtablesLock::acquire(path, milliseconds(0)));
  CHECK(XtablesLock::can_open(path));
  for (const auto& bad : {folder.path, folder.path + "/missing/xtables.lock"}) {
    const auto status = XtablesLock::can_open(bad);
    REQUIRE_FALSE(status);
    CHECK_THAT(to_string(status.error()), Catch::Contains(bad));
    CHECK_FALSE(XtablesLock::acquire(bad, milliseconds(0)));
  }
}

// Whoever may read the file may lock it.
TEST_CASE("the lock file is its owner's alone, whatever the umask") {
  const TemporaryFolder folder;
  const auto path = folder.path + "/xtables.lock";
  const auto before = ::umask(0);
  const auto lock = XtablesLock::acquire(path, milliseconds(0));
  ::umask(before);
  REQUIRE(lock);
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777U) == 0600);
}

}  // namespace
}  // namespace ipvsproxier::ipset

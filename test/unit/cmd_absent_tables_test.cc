// Kernel tables that could not be opened at start.

#include "cmd/absent_tables.h"

#include <cerrno>

#include <catch2/catch.hpp>

#include "test/fakes/fake_ipvs_table.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::cmd {
namespace {

using namespace std::chrono_literals;
using netlink::ErrorKind;

const netlink::Error kNoModule{ErrorKind::missing, ENOENT, "open IPVS"};

TEST_CASE("a table that cannot be opened answers why, and is never opened unless that is asked") {
  AbsentIpvsTable table(kNoModule);
  CHECK(table.list_services().error() == kNoModule);
  const std::vector<netlink::IpvsOp> ops{netlink::DeleteService{test::kWeb}};
  CHECK(table.apply(ops).at(0).error() == kNoModule);
  CHECK(table.requests() == 0);
}

TEST_CASE("a table that could not be opened is opened later, with growing pauses") {
  std::chrono::steady_clock::time_point now{1h};
  bool there = false;
  int tries = 0;
  int told = 0;
  Reopening<netlink::IpvsTable> reopening;
  reopening.open = [&]() -> netlink::Result<std::unique_ptr<netlink::IpvsTable>> {
    ++tries;
    if (!there) return netlink::Error{ErrorKind::missing, ENOENT, "open IPVS again"};
    return std::unique_ptr<netlink::IpvsTable>(std::make_unique<test::FakeIpvsTable>());
  };
  reopening.opened = [&] { ++told; };
  reopening.now = [&] { return now; };
  AbsentIpvsTable table(kNoModule, reopening);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(table.list_services());
  CHECK(tries == 0);
  now += 1s;
  CHECK(table.list_services().error().where == "open IPVS again");
  CHECK_FALSE(table.list_services());
  CHECK(tries == 1);
  for (int i = 0; i < 3600; ++i) {
    now += 1s;
    CHECK_FALSE(table.timeouts());
  }
  CHECK(tries >= 120);
  CHECK(tries <= 126);
  there = true;
  now += 30s;
  tries = 0;
  for (int i = 0; i < 3; ++i) CHECK(table.list_services());
  const std::vector<netlink::IpvsOp> ops{
      netlink::AddService{{.key = test::kWeb, .scheduler = "rr"}}};
  CHECK(table.apply(ops).at(0));
  CHECK(table.requests() == 1);
  CHECK(tries == 1);
  CHECK(told == 1);
}

}  // namespace
}  // namespace ipvsproxier::cmd

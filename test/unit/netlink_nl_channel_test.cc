// Channels, and tables over them, that cannot be opened at once.

#include "netlink/nl_channel.h"

#include <linux/netlink.h>

#include <cerrno>

#include <catch2/catch.hpp>

#include "netlink/ipvs/ipvs_kernel.h"

namespace ipvsproxier::netlink {
namespace {

using namespace std::chrono_literals;

const VirtualServiceKey kWeb{*IpAddress::parse("10.96.0.1"), Protocol::tcp, 80};
const Error kNoModule{ErrorKind::missing, ENOENT, "load the module"};

TEST_CASE("a table that cannot be opened answers why") {
  KernelIpvsTable table({.before = [] { return Status(kNoModule); }});
  CHECK(table.ready().error() == kNoModule);
  CHECK(table.list_services().error() == in_context(kNoModule, "list virtual services"));
  CHECK(table.begin_services().error() == kNoModule);
  const std::vector<IpvsOp> ops(2, DeleteService{kWeb});
  const auto outcomes = table.apply(ops);
  REQUIRE(outcomes.size() == 2);
  for (const auto& outcome : outcomes) CHECK(outcome.error() == kNoModule);
  CHECK(table.list_servers(kWeb).error().kind == ErrorKind::missing);
  CHECK(table.traffic(kWeb).error().kind == ErrorKind::missing);
  CHECK(table.has_scheduler("rr").error() == kNoModule);
  CHECK_FALSE(table.timeouts());
  CHECK_FALSE(table.set_timeouts({.tcp = 1}));
  CHECK(table.requests() == 0);
}

TEST_CASE("a channel that could not be opened is opened later, with pauses") {
  std::chrono::steady_clock::time_point now{1h};
  bool there = false;
  bool answers = false;
  int tries = 0;
  int greeted = 0;
  int told = 0;
  const NlOpening opening{.before = [&]() -> Status {
                            ++tries;
                            return there ? Status{} : Status(kNoModule);
                          },
                          .opened_late = [&] { ++told; },
                          .now = [&] { return now; }};
  NlChannel channel(NETLINK_ROUTE, {}, opening, [&](NlChannel& greeted_over) -> Status {
    CHECK(greeted_over.ready());  // it may be used
    ++greeted;
    return answers ? Status{} : Status(Error{ErrorKind::missing, ENOENT, "no answer"});
  });
  CHECK(tries == 1);
  for (int i = 0; i < 3; ++i) CHECK(channel.query(Operation::link, {}).error() == kNoModule);
  for (const auto& outcome : channel.transact(Operation::link, std::vector<Bytes>(2)))
    CHECK(outcome.error() == kNoModule);
  const auto each = [](ByteView) { return Status{}; };
  CHECK(channel.begin_dump({}).error() == kNoModule);
  CHECK(channel.dump(Operation::link, {}, each).error() == kNoModule);
  CHECK(channel
            .stream_whole(
                Operation::link, {}, [] {}, each)
            .error() == kNoModule);
  CHECK(tries == 1);
  now += NlChannel::kOpeningPause;
  CHECK(channel.ready().error() == kNoModule);
  CHECK(tries == 2);
  CHECK(greeted == 0);

  // The pauses grow.
  now += NlChannel::kOpeningPause;
  CHECK(channel.ready().error() == kNoModule);
  CHECK(tries == 2);
  for (int i = 0; i < 10; ++i) {
    now += NlChannel::kLongestPause;
    CHECK(channel.ready().error() == kNoModule);
  }
  CHECK(tries == 12);
  now += NlChannel::kLongestPause - std::chrono::milliseconds(1);
  CHECK(channel.ready().error() == kNoModule);
  CHECK(tries == 12);

  there = true;
  CHECK_FALSE(channel.ready());
  now += NlChannel::kLongestPause;
  CHECK(channel.ready().error().where == "no answer");
  CHECK(channel.ready().error().where == "no answer");
  CHECK(greeted == 1);
  now += NlChannel::kLongestPause;
  answers = true;
  CHECK(told == 0);
  for (int i = 0; i < 3; ++i) CHECK(channel.ready());
  CHECK(greeted == 2);
  CHECK(told == 1);
  CHECK(channel.counters().requests() == 0);
}

TEST_CASE("a channel that is opened at once tells nothing") {
  int told = 0;
  NlChannel channel(NETLINK_ROUTE, {}, {.opened_late = [&] { ++told; }});
  CHECK(channel.ready());
  CHECK(told == 0);
}

}  // namespace
}  // namespace ipvsproxier::netlink

#include <chrono>
#include <cstdlib>
#include <string>

#include <ctime>

#include <catch2/catch.hpp>

#include "proxier/serve/healthz.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::serve {
namespace {

using netlink::Family;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using Time = std::chrono::system_clock::time_point;

constexpr Time kFineWall = test::kWall + nanoseconds(678'901'234);
const std::string kFineWallText = "2026-01-02T03:04:05.678901234Z";

// The local zone of the process, for one test.
class Zone {
 public:
  explicit Zone(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
  ~Zone() {
    ::unsetenv("TZ");
    ::tzset();
  }
};

TEST_CASE("moments are written as Go does") {
  const Zone zone("UTC0");
  CHECK(go_time(std::nullopt) == "0001-01-01T00:00:00Z");
  CHECK(go_time(kFineWall) == kFineWallText);
  CHECK(go_time(Time(seconds(1'767'323'045))) == "2026-01-02T03:04:05Z");
  CHECK(go_time(Time(seconds(0) + nanoseconds(500'000'000))) == "1970-01-01T00:00:00.5Z");
  CHECK(go_time(Time(seconds(0) + nanoseconds(10))) == "1970-01-01T00:00:00.00000001Z");
  CHECK(go_time(Time(nanoseconds(-1))) == "1969-12-31T23:59:59.999999999Z");
}

TEST_CASE("moments are in the local zone") {
  const auto [zone, text] = GENERATE(table<const char*, const char*>({
      {"EST5", "2026-01-01T22:04:05.678901234-05:00"},
      {"IST-5:30", "2026-01-02T08:34:05.678901234+05:30"},
      {"NST3:30", "2026-01-01T23:34:05.678901234-03:30"},
  }));
  const Zone local(zone);
  CHECK(go_time(kFineWall) == text);
}

struct Fixture {
  Zone zone{"UTC0"};
  test::TestClock clock{kFineWall};
  Status status{{}, clock.clock()};
  Metrics metrics{{.version = "1.2.3"}};
  HttpHandler handler = health_routes(status, metrics);

  HttpResponse get(const std::string& path) { return handler({.method = "GET", .path = path}); }
};

TEST_CASE_METHOD(Fixture, "before anything reported, /healthz is red and /livez is not") {
  const auto red = get("/healthz");
  CHECK(red.status == 503);
  CHECK(red.body == R"({"lastUpdated":"0001-01-01T00:00:00Z","currentTime":")" + kFineWallText +
                        R"(","nodeEligible":false,"healthy":false})");
  const auto live = get("/livez");
  CHECK(live.status == 200);
  CHECK(live.body == R"({"lastUpdated":")" + kFineWallText + R"(","currentTime":")" +
                         kFineWallText + R"(","healthy":true})");
}

TEST_CASE_METHOD(Fixture, "why /healthz is red is said in words") {
  using Reasons = std::vector<std::string>;
  const auto reasons = [&] { return reasons_not_ready(status.health()); };
  CHECK(reasons() ==
        Reasons{"this node's Node object was not seen yet", "the sync thread has not begun"});
  status.sync_loop_started(Family::ipv4);
  status.sync_loop_started(Family::ipv6);
  status.sync_began(Family::ipv4);
  status.sync_succeeded(Family::ipv4);
  status.set_node_eligible(false);
  CHECK(reasons() ==
        Reasons{"this node is about to be deleted", "IPv6: the first sync is not complete"});
  status.sync_succeeded(Family::ipv6);
  status.set_node_eligible(true);
  CHECK(status.health().ready());
  CHECK(reasons().empty());
  status.sync_failed(Family::ipv4);
  clock.advance(seconds(60));
  CHECK(reasons() ==
        Reasons{"IPv4: what was asked for has not been in the kernel for 2 x ipvs.syncPeriod"});
}

TEST_CASE_METHOD(Fixture, "/healthz of a healthy dual-stack node") {
  status.set_node_eligible(true);
  for (const auto family : netlink::kFamilies) status.sync_succeeded(family);
  clock.advance(nanoseconds(321'098'766));
  const auto answer = get("/healthz");
  CHECK(answer.status == 200);
  CHECK(answer.content_type == "application/json");
  CHECK(answer.headers ==
        std::vector<std::pair<std::string, std::string>>{{"X-Content-Type-Options", "nosniff"}});
  const std::string families = R"("status":{"IPv4":{"lastUpdated":")" + kFineWallText +
                               R"(","healthy":true},"IPv6":{"lastUpdated":")" + kFineWallText +
                               R"(","healthy":true}}})";
  CHECK(answer.body ==
        R"({"lastUpdated":"2026-01-02T03:04:06Z","currentTime":"2026-01-02T03:04:06Z",)"
        R"("nodeEligible":true,"healthy":true,)" +
            families);
  CHECK(get("/livez").body ==
        R"({"lastUpdated":"2026-01-02T03:04:06Z","currentTime":"2026-01-02T03:04:06Z",)"
        R"("healthy":true,)" +
            families);
}

TEST_CASE_METHOD(Fixture, "a node that goes away is red though the proxy is healthy") {
  status.sync_succeeded(Family::ipv4);
  clock.advance(seconds(1));
  const auto answer = get("/healthz");
  CHECK(answer.status == 503);
  CHECK(answer.body ==
        R"({"lastUpdated":")" + kFineWallText +
            R"(","currentTime":"2026-01-02T03:04:06.678901234Z",)"
            R"("nodeEligible":false,"healthy":true,"status":{"IPv4":{"lastUpdated":")" +
            kFineWallText + R"(","healthy":true}}})");
}

TEST_CASE_METHOD(Fixture, "syncs that fail make /healthz red and leave /livez green") {
  status.set_node_eligible(true);
  status.sync_succeeded(Family::ipv6);
  status.sync_failed(Family::ipv6);
  clock.advance(seconds(60));
  const auto answer = get("/healthz");
  CHECK(answer.status == 503);
  CHECK(answer.body ==
        R"({"lastUpdated":")" + kFineWallText +
            R"(","currentTime":"2026-01-02T03:05:05.678901234Z","nodeEligible":true,)"
            R"("healthy":false,"status":{"IPv6":{"lastUpdated":")" +
            kFineWallText + R"(","healthy":false}}})");
  CHECK(get("/livez").status == 200);
}

TEST_CASE_METHOD(Fixture, "a sync thread that is stuck makes /livez red, with its families") {
  status.sync_succeeded(Family::ipv4);
  status.sync_heartbeat().beat();
  clock.advance(seconds(60));
  const auto answer = get("/livez");
  CHECK(answer.status == 503);
  CHECK(answer.body == R"({"lastUpdated":")" + kFineWallText +
                           R"(","currentTime":"2026-01-02T03:05:05.678901234Z","healthy":false,)"
                           R"("status":{"IPv4":{"lastUpdated":")" +
                           kFineWallText + R"(","healthy":false}}})");
}

TEST_CASE_METHOD(Fixture, "a main loop that is stuck makes /livez red, its families are well") {
  status.sync_succeeded(Family::ipv4);
  status.main_heartbeat().beat();
  clock.advance(seconds(60));
  const auto answer = get("/livez");
  CHECK(answer.status == 503);
  CHECK(answer.body.find(R"("healthy":false,"status")") != std::string::npos);
  CHECK(answer.body.find(R"("healthy":true}}})") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "both are counted, other paths are not there") {
  get("/livez");
  get("/livez");
  get("/healthz");
  CHECK(get("/").status == 404);
  CHECK(get("/healthz/").status == 404);
  CHECK(get("/healthz").status == 503);
  status.set_node_eligible(true);
  status.sync_succeeded(Family::ipv4);
  CHECK(get("/healthz").status == 200);
  const auto text = metrics.exposition(status);
  CHECK(text.find("kubeproxy_proxy_healthz_total{code=\"200\"} 1\n") != std::string::npos);
  CHECK(text.find("kubeproxy_proxy_healthz_total{code=\"503\"} 2\n") != std::string::npos);
  CHECK(text.find("kubeproxy_proxy_livez_total{code=\"200\"} 2\n") != std::string::npos);
  CHECK(text.find("kubeproxy_proxy_livez_total{code=\"503\"} 0\n") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::serve

#include "proxier/serve/service_figures.h"

#include <atomic>
#include <new>
#include <thread>
#include <utility>

#include <catch2/catch.hpp>

#include "proxier/serve/metrics.h"
#include "proxier/serve/metrics_server.h"
#include "test/support/test_clock.h"

namespace ipvsproxier::serve {
namespace {

using namespace std::chrono_literals;

ServiceFigures of_web(std::uint64_t connections = 7) {
  return {.service = {"default", "web"},
          .port = "http",
          .kind = "ClusterIP",
          .connections = connections,
          .packets_in = 8,
          .packets_out = 9,
          .bytes_in = 10,
          .bytes_out = 18'446'744'073'709'551'615U,
          .active = 11,
          .inactive = 12,
          .serving = 2,
          .draining = 1,
          .weightless = 3};
}

TEST_CASE("service figures as Prometheus reads them") {
  const std::string labels = R"(namespace="default",service="web",port="http",kind="ClusterIP")";
  const auto text = figures_text({of_web()});
  const auto has = [&](const std::string& line) {
    INFO(line);
    CHECK(("\n" + text).find("\n" + line + "\n") != std::string::npos);
  };
  has("# TYPE ipvsproxier_service_connections_total counter");
  has("ipvsproxier_service_connections_total{" + labels + "} 7");
  has("ipvsproxier_service_incoming_packets_total{" + labels + "} 8");
  has("ipvsproxier_service_outgoing_packets_total{" + labels + "} 9");
  has("ipvsproxier_service_incoming_bytes_total{" + labels + "} 10");
  has("ipvsproxier_service_outgoing_bytes_total{" + labels + "} 18446744073709551615");
  has("# TYPE ipvsproxier_service_active_connections gauge");
  has("ipvsproxier_service_active_connections{" + labels + "} 11");
  has("ipvsproxier_service_inactive_connections{" + labels + "} 12");
  has("ipvsproxier_service_endpoints{" + labels + R"(,state="serving"} 2)");
  has("ipvsproxier_service_endpoints{" + labels + R"(,state="draining"} 1)");
  has("ipvsproxier_service_endpoints{" + labels + R"(,state="weightless"} 3)");
  CHECK(figures_text({}).empty());
}

TEST_CASE("names in service figures cannot leave their label") {
  auto figures = of_web();
  figures.port = "a\"} 1\nevil{b=\"c\\";
  const auto text = figures_text({figures});
  CHECK(text.find(R"(port="a\"} 1\nevil{b=\"c\\",kind=)") != std::string::npos);
  CHECK(text.find("\nevil") == std::string::npos);
}

TEST_CASE("service figures stand in their place among the metrics") {
  test::TestClock clock;
  const Status status({}, clock.clock());
  const Metrics metrics({.version = "1"});
  const auto text = metrics.exposition(status, figures_text({of_web()}, clock.clock()().wall));
  std::string before;
  std::size_t families = 0;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos; ++families) {
    at += 7;
    auto name = text.substr(at, text.find(' ', at) - at);
    INFO(before << " then " << name);
    CHECK(before < name);
    before = std::move(name);
  }
  CHECK(families > 20);
  CHECK(text.find("ipvsproxier_service_endpoints") != std::string::npos);
}

// A desk whose readings are answered at once, with as many connections as were asked for.
struct AnsweredDesk {
  explicit AnsweredDesk(FiguresDesk::Times times) : desk([this] { answer(); }, times) {}

  void answer() {
    ++asked;
    if (std::exchange(throws, false)) throw std::bad_alloc();
    if (!answers) return;
    desk.put({.figures = {of_web(asked)}, .end = FiguresPart::End::none});
    end(fails ? FiguresPart::End::failed : FiguresPart::End::whole);
  }
  void end(FiguresPart::End end) { desk.put({.figures = {}, .end = end}); }
  bool tells(std::size_t connections) {
    return desk.text().find(
               "connections_total{namespace=\"default\",service=\"web\",port=\"http\","
               "kind=\"ClusterIP\"} " +
               std::to_string(connections) + "\n") != std::string::npos;
  }

  std::size_t asked = 0;
  bool answers = true;
  bool fails = false;
  bool throws = false;  // once
  FiguresDesk desk;
};

TEST_CASE("figures are read when they are asked for, but not too often") {
  AnsweredDesk rare({.between = 1h, .patience = 1h});
  CHECK(rare.tells(1));
  CHECK(rare.tells(1));
  CHECK(rare.asked == 1);
  AnsweredDesk often({.between = 0ms, .patience = 1h});
  CHECK(often.tells(1));
  CHECK(often.tells(2));
}

TEST_CASE("a scrape goes without figures that do not come, and has them later") {
  AnsweredDesk desk({.between = 0ms, .patience = 1ms});
  CHECK(desk.tells(1));
  desk.answers = false;
  CHECK(desk.tells(1));
  CHECK(desk.asked == 2);
  // It is not asked for again while it is under way.
  CHECK(desk.tells(1));
  CHECK(desk.asked == 2);
  desk.desk.put({.figures = {of_web(50)}, .end = FiguresPart::End::none});
  CHECK(desk.tells(1));
  desk.answers = true;
  desk.end(FiguresPart::End::whole);
  CHECK(desk.tells(3));
}

TEST_CASE("a reading that failed changes nothing") {
  AnsweredDesk desk({.between = 0ms, .patience = 1h});
  CHECK(desk.tells(1));
  desk.fails = true;
  CHECK(desk.tells(1));
  desk.fails = false;
  CHECK(desk.tells(3));
}

TEST_CASE("scrapes one after the other wait for one reading no longer than one would") {
  AnsweredDesk desk({.between = 1h, .patience = 200ms});
  desk.answers = false;
  const auto begin = FiguresDesk::Clock::now();
  for (int i = 0; i < 20; ++i) desk.tells(1);
  const auto took = FiguresDesk::Clock::now() - begin;
  CHECK(took >= 200ms);
  CHECK(took < 2s);  // 4 s if each waited
}

TEST_CASE("readings that keep failing end old figures, and the time of the last one stays") {
  AnsweredDesk desk({.between = 0ms, .patience = 1h});
  const auto has_time = [&] {
    return desk.desk.text().find("\nipvsproxier_service_figures_timestamp_seconds ") !=
           std::string::npos;
  };
  CHECK(desk.tells(1));
  desk.fails = true;
  for (int i = 1; i < FiguresDesk::kMostFailures; ++i) CHECK(desk.tells(1));
  CHECK_FALSE(desk.tells(1));
  CHECK(desk.desk.text().find('{') == std::string::npos);
  CHECK(has_time());
  desk.fails = false;
  CHECK(desk.tells(desk.asked + 1));
}

TEST_CASE("a reading that is refused says nothing against the one before") {
  AnsweredDesk desk({.between = 0ms, .patience = 1h});
  CHECK(desk.tells(1));
  desk.answers = false;
  for (int i = 0; i <= FiguresDesk::kMostFailures; ++i) {
    desk.end(FiguresPart::End::refused);
    desk.desk.stop();  // what is asked for now has no answer
    CHECK(desk.tells(1));
  }
}

TEST_CASE("a scrape that could not ask does not keep the next from asking") {
  AnsweredDesk desk({.between = 0ms, .patience = 1h});
  desk.throws = true;
  CHECK_THROWS_AS(desk.desk.text(), std::bad_alloc);
  CHECK(desk.tells(2));
}

TEST_CASE("a desk that is stopped keeps nobody") {
  AnsweredDesk desk({.between = 0ms, .patience = 1h});
  desk.answers = false;
  std::thread stopper([&] { desk.desk.stop(); });
  CHECK(desk.desk.text().empty());
  stopper.join();
}

}  // namespace
}  // namespace ipvsproxier::serve

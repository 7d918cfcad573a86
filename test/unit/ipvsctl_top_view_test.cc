#include "cmd/ipvsctl/top/top_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

using namespace std::chrono_literals;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::RealServerKey;
using netlink::VirtualServiceKey;

Counters traffic_of(std::uint64_t connections, std::uint64_t packets) {
  return {.connections = connections,
          .packets_in = packets,
          .packets_out = packets / 2,
          .bytes_in = 100 * packets,
          .bytes_out = 1000 * packets};
}

VirtualServiceKey virtual_key(const std::string& ip, std::uint16_t port,
                              Protocol protocol = Protocol::tcp) {
  return {.address = *IpAddress::parse(ip), .protocol = protocol, .port = port};
}

ServerCount counted_server(const std::string& ip, std::uint16_t port, std::uint32_t active,
                           const Counters& counters) {
  return {.key = {*IpAddress::parse(ip), port},
          .active = active,
          .inactive = active / 2,
          .counters = counters};
}

// `times` the same traffic, after so many seconds.
std::vector<ServiceCount> reading(std::uint64_t times, std::chrono::seconds time) {
  const TimePoint at(time);
  const auto much = [&](std::uint64_t connections, std::uint64_t packets) {
    return traffic_of(connections * times, packets * times);
  };
  return {{.key = virtual_key("10.96.0.10", 53, Protocol::udp),
           .at = at,
           .counters = much(40, 80),
           .servers = {counted_server("10.244.0.2", 53, 0, much(20, 40)),
                       counted_server("10.244.1.2", 53, 0, much(20, 40))}},
          {.key = virtual_key("10.96.8.1", 80),
           .at = at,
           .counters = much(7, 24690),
           .servers = {counted_server("10.244.0.9", 8080, 31, much(7, 24690))}},
          {.key = virtual_key("192.0.2.7", 80),
           .at = at,
           .counters = much(3, 10),
           .servers = {counted_server("10.244.0.9", 8080, 2, much(3, 10))}},
          {.key = virtual_key("fd00:96::8:1", 80), .at = at}};
}

Traffic two_seconds() {
  Traffic traffic;
  traffic.take(reading(1, 0s));
  traffic.take(reading(3, 2s));
  return traffic;
}

const std::string kPage = R"({"services":[
{"namespace":"kube-system","name":"kube-dns","virtual":[["10.96.0.10",53,"UDP","dns","cluster IP"]],
 "slices":[{"ports":[53],"endpoints":[["10.244.1.2","","n2","",true,true,false]]}]},
{"namespace":"shop","name":"web",
 "virtual":[["10.96.8.1",80,"TCP","http","cluster IP"],["192.0.2.7",80,"TCP","http","external IP"],
            ["fd00:96::8:1",80,"TCP","http","cluster IP"]],
 "slices":[{"ports":[8080],
            "endpoints":[["10.244.0.9","web-7d4b9-x2x8z","n1","",true,true,false]]}]}],
"continue":""})";

// A page as the daemon answers it: two Services, one with three facets, and who is behind them.
ClusterNames cluster_names() {
  ClusterNames names;
  REQUIRE(names.take_page(kPage));
  return names;
}

std::string screen(const TopView& view, const ScreenSize& size, const ClusterNames& known = {},
                   const std::string& notice = "") {
  const auto traffic = two_seconds();
  const auto table = top_table(traffic, view, known, rows_on(size));
  std::string text;
  for (const auto& line : top_screen(table, view, size, 12ms, notice)) {
    CHECK(line.size() <= size.width);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string names(const TopView& view, const ClusterNames& known = {}) {
  std::string text;
  for (const auto& row : top_table(two_seconds(), view, known, 100).rows) text += row.name + "\n";
  return text;
}

TEST_CASE("top: a screen by virtual service") {
  CHECK(screen({}, {80, 9}) ==
        R"(4 Services by new connections, every 2 s, read in 12 ms
Service                         Active  InAct    CPS  InPPS OutPPS  InBPS OutBPS
all                                 33     16     50  24780  12390  2.48M  24.8M
10.96.0.10:53/UDP                    0      0     40     80     40   8000  80000
10.96.8.1:80/TCP                    31     15      7  24690  12345  2.47M  24.7M
192.0.2.7:80/TCP                     2      1      3     10      5   1000  10000
[fd00:96::8:1]:80/TCP                0      0      0      0      0      0      0

q quit  t Services/backends  c a i p b n sort  r reverse  / filter  space pause~
)");
}

TEST_CASE("top: a screen by backend, with names, filtered and paused") {
  const TopView view{.by_backend = true,
                     .sort = TopSort::bytes,
                     .reversed = true,
                     .filter = "10.244.0",
                     .paused = true,
                     .interval = 500ms};
  CHECK(
      screen(view, {100, 7}, cluster_names(), "a notice") ==
      R"(2 of 3 backends by bytes, least first, every 0.5 s, with "10.244.0", read in 12 ms [paused]: a noti~
Backend                                             Active  InAct    CPS  InPPS OutPPS  InBPS OutBPS
all                                                     33     16     50  24780  12390  2.48M  24.8M
10.244.0.2:53                                            0      0     20     40     20   4000  40000
10.244.0.9:8080 shop/web-7d4b9-x2x8z                    33     16     10  24700  12350  2.47M  24.7M

q quit  t Services/backends  c a i p b n sort  r reverse  / filter  space pause  + - interval
)");
}

TEST_CASE("top: what one Service has is one row") {
  CHECK(screen({}, {80, 6}, cluster_names()) ==
        R"(2 Services by new connections, every 2 s, read in 12 ms
Service                         Active  InAct    CPS  InPPS OutPPS  InBPS OutBPS
all                                 33     16     50  24780  12390  2.48M  24.8M
kube-system/kube-dns:dns             0      0     40     80     40   8000  80000
shop/web:http                       33     16     10  24700  12350  2.47M  24.7M
q quit  t Services/backends  c a i p b n sort  r reverse  / filter  space pause~
)");
}

TEST_CASE("top: screens of any size") {
  for (std::size_t width = 0; width < 120; ++width)
    for (std::size_t height = 0; height < 12; ++height) {
      const ScreenSize size{width, height};
      const auto table = top_table(two_seconds(), {}, {}, rows_on(size));
      const auto lines = top_screen(table, {}, size, 1ms, "");
      REQUIRE(lines.size() == height);
      for (const auto& line : lines) REQUIRE(line.size() <= width);
    }
  CHECK(screen({}, {30, 5}) ==
        R"(4 Services by new connections~
Service       Active  InAct  ~
all               33     16  ~
10.96.0.10:~       0      0  ~
q quit  t Services/backends  ~
)");
}

TEST_CASE("top: rows beyond the screen are reached") {
  TopView view;
  press(view, TopKey::page_down, 2);
  press(view, 'j', 2);
  press(view, TopKey::up, 2);
  CHECK(view.first == 2);
  CHECK(screen(view, {80, 6}).find("\n192.0.2.7:80/TCP") != std::string::npos);
  press(view, TopKey::page_up, 30);
  CHECK(view.first == 0);
  view.first = 1000;
  const auto last = top_table(two_seconds(), view, {}, 3);
  CHECK(last.first == 1);
  CHECK(last.rows.size() == 3);
  CHECK(last.rows.back().name == "[fd00:96::8:1]:80/TCP");
  press(view, TopKey::home, 3);
  CHECK(view.first == 0);
}

TEST_CASE("top: sorted by each column, both ways") {
  const auto first = [](TopView view) { return names(view).substr(0, names(view).find('\n')); };
  CHECK(first({.sort = TopSort::connections}) == "10.96.0.10:53/UDP");
  CHECK(first({.sort = TopSort::packets}) == "10.96.8.1:80/TCP");
  CHECK(first({.sort = TopSort::bytes}) == "10.96.8.1:80/TCP");
  CHECK(first({.sort = TopSort::active}) == "10.96.8.1:80/TCP");
  CHECK(first({.sort = TopSort::inactive}) == "10.96.8.1:80/TCP");
  CHECK(first({.sort = TopSort::packets, .reversed = true}) == "[fd00:96::8:1]:80/TCP");
  CHECK(names({.sort = TopSort::name}) ==
        "10.96.0.10:53/UDP\n10.96.8.1:80/TCP\n192.0.2.7:80/TCP\n[fd00:96::8:1]:80/TCP\n");
  CHECK(first({.sort = TopSort::name, .reversed = true}) == "[fd00:96::8:1]:80/TCP");
}

TEST_CASE("top: keys") {
  TopView view;
  for (const char key : std::string("tr ")) press(view, key, 10);
  CHECK(view == TopView{.by_backend = true, .reversed = true, .paused = true});
  for (const auto& [key, sort] :
       {std::pair{'a', TopSort::active}, std::pair{'i', TopSort::inactive},
        std::pair{'p', TopSort::packets}, std::pair{'b', TopSort::bytes},
        std::pair{'n', TopSort::name}, std::pair{'c', TopSort::connections}}) {
    press(view, key, 10);
    CHECK(view.sort == sort);
  }
  press(view, 'x', 10);
  CHECK_FALSE(view.over);
  press(view, 'q', 10);
  CHECK(view.over);
  for (int i = 0; i < 20; ++i) press(view, '-', 10);
  CHECK(view.interval == 250ms);
  for (int i = 0; i < 20; ++i) press(view, '+', 10);
  CHECK(view.interval == 64s);
}

TEST_CASE("top: a filter is typed, taken or left") {
  TopView view{.filter = "old", .first = 7};
  for (const char key : std::string("/qtX")) press(view, key, 10);
  press(view, TopKey::backspace, 10);
  CHECK(view.typing == "qt");
  CHECK_FALSE(view.over);
  CHECK(screen(view, {20, 3}).ends_with("\n/qt\n"));
  auto other = view;
  press(other, TopKey::escape, 10);
  CHECK(other == TopView{.filter = "old", .first = 7});
  press(view, TopKey::enter, 10);
  CHECK(view == TopView{.filter = "qt"});
  // Letters of any case.
  CHECK(names({.filter = "SHOP"}, cluster_names()) == "shop/web:http\n");
}

TEST_CASE("top: as text, as wide as its names") {
  CHECK(top_text(top_table(two_seconds(), {.filter = "80"}, {}, 2)) ==
        R"(Name              Active  InAct    CPS  InPPS OutPPS  InBPS OutBPS
10.96.8.1:80/TCP      31     15      7  24690  12345  2.47M  24.7M
192.0.2.7:80/TCP       2      1      3     10      5   1000  10000
all                   33     16     50  24780  12390  2.48M  24.8M
)");
  Traffic first;
  first.take(reading(1, 0s));
  CHECK(top_text(top_table(first, {}, {}, 1)) ==
        R"(Name               Active  InAct    CPS  InPPS OutPPS  InBPS OutBPS
10.96.0.10:53/UDP       0      0      -      -      -      -      -
all                    33     16      -      -      -      -      -
)");
}

TEST_CASE("top: a table that takes long is read less often") {
  const TimePoint began(10s);
  CHECK(next_reading(began, began + 100ms, 2s) == began + 2s);
  CHECK(next_reading(began, began + 1500ms, 2s) == began + 3s);
  CHECK(next_reading(began, began + 5s, 2s) == began + 10s);
}

TEST_CASE("top: numbers of at most six characters") {
  const std::vector<std::pair<double, std::string>> cases = {
      {0, "0"},           {0.04, "0"},       {0.5, "0.5"},           {9.949, "9.9"},
      {9.96, "10"},       {999.5, "1000"},   {99999.4, "99999"},     {99999.6, "100k"},
      {123456, "123k"},   {999499, "999k"},  {999500, "1.00M"},      {12'345'678, "12.3M"},
      {9.996e6, "10.0M"}, {99.96e6, "100M"}, {1.8446744e19, "18.4E"}};
  for (const auto& [number, text] : cases) CHECK(short_number(number) == text);
}

TEST_CASE("top tells backends whose weight is not 1, and those that are full") {
  auto counts = reading(1, 0s);
  auto& servers = counts.front().servers;
  servers.front().weight = 0;
  servers.back().weight = 3;
  servers.back().active = 5;
  servers.back().inactive = 5;
  servers.back().upper_threshold = 10;
  Traffic traffic;
  traffic.take(counts);
  std::vector<std::string> names;
  for (const auto& row : top_table(traffic, {.by_backend = true}, cluster_names(), 10).rows)
    names.push_back(row.name);
  const auto has = [&](const std::string& name) { return std::ranges::count(names, name) == 1; };
  CHECK(has("10.244.0.2:53, weight 0"));
  CHECK(has("10.244.1.2:53, weight 3, full"));
  servers.back().upper_threshold = 11;
  traffic.take(counts);
  CHECK(top_table(traffic, {.by_backend = true, .filter = "full"}, {}, 10).rows.empty());
  // Another virtual service has the same real server, and there it is full.
  auto both = reading(1, 0s);
  auto& other = both.emplace_back(both.front());
  other.key.port = 9999;
  other.servers.front().weight = 7;
  other.servers.front().active = 10;
  other.servers.front().upper_threshold = 10;
  traffic.take(both);
  const auto rows = top_table(traffic, {.by_backend = true, .filter = "full"}, {}, 10).rows;
  REQUIRE(rows.size() == 1);
  CHECK(rows.front().name == "10.244.0.2:53, weight 7, full");
}

}  // namespace
}  // namespace ipvsproxier::ctl

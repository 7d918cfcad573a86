#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <regex>
#include <sstream>
#include <thread>

#include <catch2/catch.hpp>

#include "cmd/ipvsctl/top/traffic.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "test/kernel/ctl_states.h"
#include "test/kernel/netns.h"
#include "test/kernel/pty.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string kTopTable = R"(-A -u 10.0.0.1:5300 -s rr
-a -u 10.0.0.1:5300 -r 10.7.7.5:5300 -m
-a -u 10.0.0.1:5300 -r 10.7.7.6:5300 -m
-A -u 10.0.0.2:5300 -s rr
-a -u 10.0.0.2:5300 -r 10.7.7.6:5300 -m
-A -t [fd00::1]:80 -s rr
)";

std::string top(const std::string& flags) {
  return ipvsctl_word() + " top -n " + flags;
}

// Datagrams to 10.0.0.1:5300 at a steady rate until it ends.
class SteadyTraffic {
 public:
  SteadyTraffic() : thread_([this](const std::stop_token& stop) { run(stop); }) {}
  std::size_t sent() const { return sent_; }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      send_much("10.0.0.1", 5300, 5);
      sent_ += 5;
      std::this_thread::sleep_for(50ms);
    }
  }
  std::atomic<std::size_t> sent_{0};
  std::jthread thread_;
};

TEST_CASE("kernel: top divides what the kernel counted by the exact time") {
  const CtlWorld world;
  restore_table(kTopTable);
  auto reader = netlink::KernelIpvsReader::open();
  REQUIRE(reader);
  const auto read = [&] {
    auto counts = ctl::read_counts(**reader, Clock::now);
    REQUIRE(counts);
    return std::move(*counts);
  };
  ctl::Traffic traffic;
  const auto before = read();
  constexpr int kDatagrams = 300;
  send_much("10.0.0.1", 5300, kDatagrams);
  // The kernel sums counters up every two seconds.
  const auto find = [](const std::vector<ctl::ServiceCount>& counts) {
    return *std::ranges::find_if(counts, [](const ctl::ServiceCount& one) {
      return one.key.address.to_string() == "10.0.0.1";
    });
  };
  auto after = read();
  for (int i = 0; i < 200 && find(after).counters.packets_in < kDatagrams; ++i) {
    std::this_thread::sleep_for(50ms);
    after = read();
  }
  std::this_thread::sleep_for(2500ms);
  after = read();
  traffic.take(before);
  traffic.take(after);
  const auto& [key, service] = *traffic.services().find(find(after).key);
  const std::chrono::duration<double> passed = find(after).at - find(before).at;
  REQUIRE(service.meter.rates());
  CHECK(service.meter.rates()->packets_in == Approx(kDatagrams / passed.count()));
  CHECK(service.meter.rates()->connections == Approx(1 / passed.count()));
  CHECK(service.meter.rates()->bytes_in > 60'000 * kDatagrams / passed.count());
  REQUIRE(service.servers.size() == 2);
  const auto sum =
      service.servers[0].meter.rates()->packets_in + service.servers[1].meter.rates()->packets_in;
  CHECK(sum == Approx(kDatagrams / passed.count()));
  CHECK(service.servers[0].inactive + service.servers[1].inactive == 1);
}

TEST_CASE("kernel: top prints a table an interval where there is no terminal") {
  const CtlWorld world;
  restore_table(kTopTable);
  const auto once = shell(top("--once --interval 0.25 --sort-by name </dev/null"));
  CHECK(once.starts_with("Name "));
  CHECK(once.find("\n10.0.0.1:5300/UDP ") < once.find("\n10.0.0.2:5300/UDP "));
  CHECK(once.find("\n[fd00::1]:80/TCP ") != std::string::npos);
  CHECK(std::ranges::count(once, '\n') == 5);
  const auto backends = shell(top("--by backend --filter 7.6 --count 3 --interval 0.25"));
  CHECK(std::ranges::count(backends, '\n') == 3 * 3 + 2);
  CHECK(backends.find("10.7.7.6:5300") != std::string::npos);
  CHECK(backends.find("10.7.7.5:5300") == std::string::npos);
  CHECK(shell(top("--interval 0.25") + " | head -n 1").starts_with("Name "));
  CHECK(shell(top("--interval 0.1 2>&1 || echo status $?")).find("status 2\n") !=
        std::string::npos);
}

TEST_CASE("kernel: top without the privilege says which is missing") {
  const CtlWorld world;
  const auto text = shell("setpriv --bounding-set -net_admin --inh-caps -net_admin " +
                          top("--once 2>&1 || echo status $?"));
  CHECK(text.find("needs CAP_NET_ADMIN") != std::string::npos);
  CHECK(text.find("status 1\n") != std::string::npos);
}

TEST_CASE("kernel: top tells about the traffic that there is") {
  const CtlWorld world;
  restore_table(kTopTable);
  SteadyTraffic traffic;
  const auto begun = Clock::now();
  std::istringstream text(shell(top("--count 5 --interval 2 --filter 10.0.0.1")));
  const std::chrono::duration<double> passed = Clock::now() - begun;
  const double sent = static_cast<double>(traffic.sent()) / passed.count();
  std::vector<double> rates;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name, active, inactive, connections, packets;
    words >> name >> active >> inactive >> connections >> packets;
    if (name == "10.0.0.1:5300/UDP") rates.push_back(packets == "-" ? 0 : std::stod(packets));
  }
  REQUIRE(rates.size() == 5);
  // One of them may have caught two sums of the kernel, or none; the first may have no rate.
  std::ranges::sort(rates);
  INFO("sent " << sent << " a second, median seen " << rates[2]);
  CHECK(rates[2] > sent / 2);
  CHECK(rates[2] < sent * 2);
}

TEST_CASE("kernel: top on a terminal: keys, size, stop, and the terminal as it was") {
  const CtlWorld world;
  restore_table(kTopTable);
  SteadyTraffic traffic;
  PtyCommand command(
      "set -m; before=$(stty -g); same() { [ \"$(stty -g)\" = \"$before\" ]; }; " +
      top("--interval 0.25") +
      "; echo top $?; same && echo given back; fg; echo top $?; same && echo as it was");
  REQUIRE(command.shows("3 Services by new connections, every 0.25 s"));
  REQUIRE(command.shows("OutBPS"));
  REQUIRE(command.shows("10.0.0.1:5300/UDP"));
  REQUIRE(command.shows("q quit"));
  command.type("t");
  REQUIRE(command.shows("Backend"));
  REQUIRE(command.shows("7.7.6"));
  command.type("t/0.2\r");
  REQUIRE(command.shows("1 of 3"));
  command.type("/\r");
  command.resize(120, 10);
  REQUIRE(command.shows("space pause  + - interval"));
  command.type(" ");
  REQUIRE(command.shows("[paused]"));
  // It waits for a key: of a second, which has a hundred ticks, it works for a small part.
  const auto ticks = [] {
    return std::stol(shell("awk '{print $14 + $15}' /proc/$(pgrep -x ipvsctl)/stat"));
  };
  const auto before = ticks();
  std::this_thread::sleep_for(1s);
  CHECK(ticks() - before < 30);
  command.type("\x1a");
  REQUIRE(command.shows("top 148"));
  REQUIRE(command.shows("given back"));
  REQUIRE(command.shows("10.0.0.1:5300/UDP"));
  command.type("q");
  REQUIRE(command.shows("top 0"));
  REQUIRE(command.shows("as it was"));
  CHECK(command.wait_for_end() == 0);
  // Left the second screen as often as it was entered; no colours.
  const auto count = [&](const std::string& code) {
    std::size_t found = 0;
    for (auto at = command.all().find(code); at != std::string::npos;
         at = command.all().find(code, at + 1))
      ++found;
    return found;
  };
  CHECK(count("\x1b[?1049h") == 2);
  CHECK(count("\x1b[?1049l") == 2);
  const std::regex colour("\x1b\\[([0-9]+;)*[34][0-9](;[0-9]+)*m");
  CHECK_FALSE(std::regex_search(command.all(), colour));
}

TEST_CASE(
    "kernel: top on a terminal ends by a signal as any program, and gives the terminal back") {
  const CtlWorld world;
  restore_table(kTopTable);
  const int signal = GENERATE(SIGINT, SIGTERM);
  PtyCommand command("exec " + top("--interval 0.25"));
  REQUIRE(command.shows("q quit"));
  CHECK_FALSE(command.as_it_was());
  if (signal == SIGINT)
    command.type("\x03");
  else
    shell("pkill -TERM -x ipvsctl");
  CHECK(command.shows("\x1b[?1049l"));
  CHECK(command.wait_for_end() == 128 + signal);
  CHECK(command.as_it_was());
}

TEST_CASE("kernel: top on a terminal that cannot move its cursor prints tables") {
  const CtlWorld world;
  restore_table(kTopTable);
  const std::string kind = GENERATE("dumb", "", "no-such-terminal");
  PtyCommand command("TERM=" + kind + " " + top("--interval 0.25"));
  REQUIRE(command.shows("Name "));
  REQUIRE(command.shows("Name "));
  CHECK(command.all().find('\x1b') == std::string::npos);
  command.type("\x03");
  CHECK(command.wait_for_end() == 130);
}

}  // namespace
}  // namespace ipvsproxier::test

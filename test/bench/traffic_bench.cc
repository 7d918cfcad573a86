// What users of Services feel of a node. Runs in a guest with nf_tables and legacy iptables.
//
//   traffic_bench paths RULES [ranges]     RULES: kube-proxy, iptables or nftables
//   traffic_bench times SERVICES ROUNDS
//
// `paths` follows packets through the rules, as the kernel traces and as it counts them;
// packet_path.py reads its output, sections after lines "=== NAME": `path PATH`, its destination;
// `rules`, the listing; `trace PATH KIND`, events of packet_trace.h; `packets PATH KIND`, how many
// conntrack saw meanwhile; `before PATH KIND` and `after PATH KIND`, listings of the same rules
// with counters.
//
// `times` measures connections and round trips by all ways of traffic_ways.h, round by round, and
// prints lines ROAD<tab>WAY<tab>WHAT<tab>VALUE.

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "test/bench/traffic_bed.h"
#include "test/bench/traffic_times.h"
#include "test/bench/traffic_ways.h"
#include "test/support/paths.h"
#include "test/support/require.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::bench {
namespace {

void print_section(const std::string& name, const std::string& text) {
  fmt::print("=== {}\n{}\n", name, text);
}

class Paths {
 public:
  explicit Paths(const TrafficBed& bed)
      : bed_(bed), is_nft_(bed.rules.filter == TracedFilter::nftables) {}

  void follow() {
    for (const auto& path : bed_.paths()) {
      print_section("path " + path.name, netlink::to_string(path.to, path.port));
      open(path);
    }
    print_section("rules", listing());
    put_packet_counters();
    {
      PacketTrace trace(bed_.cluster.netns(), bed_.rules.filter);
      for (const auto& path : bed_.paths()) trace_path(trace, path);
    }
    put_counters();
    for (const auto& path : bed_.paths()) count_path(path);
  }

 private:
  std::string in_node(const std::string& command) const {
    return bed_.cluster.netns().inside([&] { return test::shell(command); });
  }
  std::string listing() const {
    return in_node(is_nft_ ? "nft -j -a list table ip kube-ipvs"
                           : "iptables-save -c -t nat; iptables-save -c -t filter");
  }
  // Packets by what conntrack says of them, whatever the trace says.
  std::string packets() const { return in_node("nft -j list table ip traffic_count"); }
  std::string counters() const { return packets() + "\n" + listing(); }

  test::Stream open(const Path& path) const {
    return test::require(path.from->open_stream(path.to, path.port));
  }
  static void exchange(test::Stream& stream) {
    if (const auto done = stream.exchange(5000, 100); !done)
      throw std::runtime_error(netlink::to_string(done.error()));
    // What acknowledges the last packet may come 40 ms later.
    ::usleep(100'000);
  }

  void trace_path(PacketTrace& trace, const Path& path) {
    std::string before = packets();
    const auto section = [&](const char* kind) {
      std::string text;
      for (const auto& event : trace.take()) text += event + "\n";
      print_section(fmt::format("trace {} {}", path.name, kind), text);
      print_section(fmt::format("packets {} {}", path.name, kind), before + packets());
    };
    trace.take();
    bed_.send_first(path);
    section("new");
    auto stream = open(path);
    exchange(stream);
    before = packets();
    trace.take();
    exchange(stream);
    section("established");
  }

  void count_path(const Path& path) {
    const auto section = [&](const char* when, const char* kind) {
      print_section(fmt::format("{} {} {}", when, path.name, kind), counters());
    };
    section("before", "new");
    bed_.send_first(path);
    section("after", "new");
    auto stream = open(path);
    exchange(stream);
    section("before", "established");
    exchange(stream);
    section("after", "established");
  }

  void put_packet_counters() const {
    in_node(
        "nft 'table ip traffic_count { chain begin { type filter hook prerouting priority -150; "
        "meta l4proto != tcp accept; ct state new counter; "
        "ct state established ct direction original counter; "
        "ct state established ct direction reply counter; }; }'");
  }

  // The same rules, with a counter ahead of each rule and of each lookup in it.
  void put_counters() const {
    const test::TempDir folder;
    const auto file = folder.path() / "rules";
    std::ofstream(file) << listing();
    const std::string program = test::data_path("bench/packet_path.py");
    in_node(fmt::format("python3 {} --put-counters < {} > {}.counted", program, file.string(),
                        file.string()));
    in_node((is_nft_ ? "nft -j -f " : "iptables-restore -w < ") + file.string() + ".counted");
  }

  const TrafficBed& bed_;
  const bool is_nft_;
};

void print_paths(std::string_view rules, bool ranges) {
  const TrafficBed bed(rules_of(rules), ranges);
  Paths(bed).follow();
}

void print_times(int services, int rounds) {
  Ways ways(services);
  const auto print = [](const Road& road, Way way, const char* what, double value) {
    fmt::print("{}\t{}\t{}\t{:.2f}\n", road.name, name_of(way), what, value);
  };
  for (int round = 0; round < rounds; ++round)
    for (const auto way : kWays)
      for (const auto& road : ways.open(way)) {
        const auto sample = measure_traffic(road);
        print(road, way, "connection", sample.connect_us);
        print(road, way, "round trip", sample.round_trip_us);
        print(road, way, "per second", sample.per_second);
      }
}

int run_traffic(int argc, char** argv) {
  const std::string_view what = argc < 3 ? "" : argv[1];
  const bool ranges = argc == 4 && std::string_view(argv[3]) == "ranges";
  const bool is_times = what == "times" && argc == 4;
  if (!is_times && (what != "paths" || (argc != 3 && !ranges))) {
    std::fprintf(stderr,
                 "usage: traffic_bench paths RULES [ranges]\n"
                 "       traffic_bench times SERVICES ROUNDS\n");
    return 2;
  }
  try {
    if (is_times)
      print_times(std::stoi(argv[2]), std::stoi(argv[3]));
    else
      print_paths(argv[2], ranges);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "traffic_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ipvsproxier::bench

int main(int argc, char** argv) {
  return ipvsproxier::bench::run_traffic(argc, argv);
}

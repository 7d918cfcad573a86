// What listing the virtual server table costs beside the kernel's part of it: the bare dump, whose
// messages nobody reads; and what `ipvsctl top` costs. Runs in the scratch kernel, in a fresh
// network namespace.
//
//   list_bench [SERVICES [SERVERS_OF_EACH]]     prints lines NAME<tab>VALUE<tab>UNIT

#include <fcntl.h>
#include <linux/netlink.h>
#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cmd/ipvsctl/commands.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "cmd/ipvsctl/output.h"
#include "cmd/ipvsctl/top/top_view.h"
#include "netlink/ipvs/ipvs_codec.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/unique_fd.h"
#include "proxier/inspect/name_page.h"
#include "proxier/serve/http_server.h"
#include "test/kernel/netns.h"
#include "test/support/require.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::bench {
namespace {

using netlink::Bytes;
using netlink::IpAddress;

constexpr std::uint32_t kFirstVip = 0x0a600000;  // 10.96.0.0
constexpr std::uint32_t kFirstServer = 0x0a800000;

double now_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

double kilobytes(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == what) {
      double kb = 0;
      status >> kb;
      return kb;
    }
  return 0;
}

double timed(const std::function<void()>& work) {
  const auto start = now_ms();
  work();
  return now_ms() - start;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// VmHWM is from now on the peak since now (proc(5), clear_refs).
void forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  if (!(file << 5 << std::flush)) throw std::runtime_error("/proc/self/clear_refs");
}

void check(const netlink::Status& status) {
  if (!status) throw std::runtime_error(to_string(status.error()));
}

std::vector<netlink::VirtualServiceKey> make_table(std::uint32_t services, std::uint32_t servers) {
  const auto table = test::require(netlink::KernelIpvsTable::open());
  std::vector<netlink::IpvsOp> ops;
  std::vector<netlink::VirtualServiceKey> keys;
  for (std::uint32_t i = 0; i < services; ++i) {
    keys.push_back({.address = IpAddress::v4(kFirstVip + i), .port = 80});
    ops.emplace_back(netlink::AddService{{.key = keys.back(), .scheduler = "rr"}});
    for (std::uint32_t n = 0; n < servers; ++n)
      ops.emplace_back(netlink::AddServer{
          keys.back(), {.key = {IpAddress::v4(kFirstServer + i * servers + n), 8080}}});
  }
  for (const auto& outcome : table->apply(ops)) check(outcome);
  return keys;
}

// The requests of a listing, sent one after another; answers are received and looked at no further
// than for the end of each dump.
class BareDump {
 public:
  explicit BareDump(const std::vector<netlink::VirtualServiceKey>& keys)
      : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC)) {
    const auto family = test::require(netlink::IpvsChannel::open()).family;
    requests_.push_back(netlink::encode_list_services(family));
    for (const auto& key : keys) requests_.push_back(netlink::encode_list_servers(family, key));
    for (auto& request : requests_)
      reinterpret_cast<nlmsghdr*>(request.data())->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  }

  void run() {
    for (const auto& request : requests_) {
      if (::send(socket_.get(), request.data(), request.size(), 0) < 0)
        throw std::runtime_error("send");
      while (!ends()) {
      }
    }
  }

 private:
  bool ends() {
    const auto size = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
    if (size < 0) throw std::runtime_error("receive");
    auto datagram = netlink::ByteView(buffer_).first(static_cast<std::size_t>(size));
    for (auto message = test::require(netlink::take_message(datagram)); message;
         message = test::require(netlink::take_message(datagram))) {
      if (message->type == NLMSG_ERROR) throw std::runtime_error("the dump failed");
      if (message->type == NLMSG_DONE) return true;
    }
    return false;
  }

  netlink::UniqueFd socket_;
  std::vector<Bytes> requests_;
  Bytes buffer_ = Bytes(netlink::NlChannel::kReceiveBytes);
};

// A cluster whose Services are that table, and a socket on which its names are told as the daemon
// tells them.
class Names {
 public:
  Names(std::uint32_t services, std::uint32_t servers)
      : planner_({.families = {netlink::Family::ipv4}}) {
    std::set<api::NamespacedName> names;
    for (std::uint32_t i = 0; i < services; ++i) {
      const api::NamespacedName name{"namespace-" + std::to_string(i % 50),
                                     "service-" + std::to_string(i)};
      names.insert(name);
      cluster_.put(api::Service{.name = name,
                                .cluster_ips = {IpAddress::v4(kFirstVip + i)},
                                .ports = {{.name = "http", .port = 80}}});
      for (std::uint32_t n = 0; n < servers; n += kSliceEndpoints)
        cluster_.put(slice_of(name, i * servers + n, std::min(servers - n, kSliceEndpoints)));
    }
    planner_.set_node(plan::node_info("node-0", std::nullopt, plan::NodeIps(), {}));
    planner_.update(names, cluster_);
    test::require(server_.serve(test::require(serve::open_local_socket(path())),
                                [this](const auto& request) { return answer(request); }));
  }
  std::string path() const { return (dir_.path() / "control.sock").string(); }

  // How long each page keeps the thread busy that makes it: the daemon's sync thread.
  std::vector<double> page_times() const {
    std::vector<double> times;
    for (inspect::ServiceQuery query; times.empty() || query.after;) {
      std::string page;
      times.push_back(timed([&] { page = name_page(cluster_, planner_, query, kPageBytes); }));
      query.after = inspect::parse_page_end(test::require(ctl::ClusterNames().take_page(page)));
    }
    return times;
  }

 private:
  static api::EndpointSlice slice_of(const api::NamespacedName& service, std::uint32_t first,
                                     std::uint32_t count) {
    api::EndpointSlice slice{.name = {service.ns, fmt::format("{}-{:08}", service.name, first)},
                             .service = service.name,
                             .ports = {{.name = "http", .port = 8080}}};
    std::vector<api::Endpoint> endpoints;
    for (std::uint32_t n = first; n < first + count; ++n)
      endpoints.push_back({.address = IpAddress::v4(kFirstServer + n),
                           .node_name = "node-" + std::to_string(n % 1000),
                           .zone = "zone-" + std::to_string(n % 3),
                           .target_name = service.name + "-7d4b9c6f5-" + std::to_string(n)});
    slice.endpoints = endpoints;
    return slice;
  }
  serve::HttpResponse answer(const serve::HttpRequest& request) {
    inspect::ServiceQuery query;
    if (const auto last = request.query.find("after"); last != request.query.end())
      query.after = inspect::parse_page_end(last->second);
    return serve::json_text(200, inspect::name_page(cluster_, planner_, query, kPageBytes));
  }

  static constexpr std::uint32_t kSliceEndpoints = 1000;  // an API server takes no more
  static constexpr std::size_t kPageBytes =
      std::size_t{256} * 1024;  // as in cmd/ipvs_proxier/control.cc

  model::ClusterState cluster_;
  plan::Planner planner_;
  test::TempDir dir_;
  serve::HttpServer server_{*spdlog::default_logger()};
};

void list(const ctl::ListOptions& options) {
  const netlink::UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ctl::Output output(null.get());
  check(ctl::run_list(options, [&](std::string_view text) { return output.write(text); }));
}

// What `ipvsctl top` does again and again.
class Top {
 public:
  explicit Top(const std::string& socket) : names_(*ctl::names_if_known(socket)) {}

  void read() {
    traffic_.take(test::require(ctl::read_counts(*reader_, std::chrono::steady_clock::now)));
  }
  void make_table(bool by_backend) const {
    constexpr auto kAll = std::numeric_limits<std::size_t>::max();
    if (top_text(top_table(traffic_, {.by_backend = by_backend}, names_, kAll)).empty())
      throw std::runtime_error("no table");
  }

 private:
  std::unique_ptr<netlink::KernelIpvsReader> reader_ =
      test::require(netlink::KernelIpvsReader::open());
  ctl::ClusterNames names_;
  ctl::Traffic traffic_;
};

void run(std::uint32_t services, std::uint32_t servers) {
  using ctl::ListFormat;
  constexpr int kRounds = 5;
  const test::FreshNetns netns;
  BareDump bare(make_table(services, servers));
  const Names names(services, servers);
  const std::map<std::string, ctl::ListOptions> listings = {
      {"unsorted", {.names = false, .sorted = false}},
      {"unsorted, --stats", {.columns = ctl::Columns::stats, .names = false, .sorted = false}},
      {"unsorted, names", {.socket = names.path(), .sorted = false}},
      {"sorted", {.names = false}},
      {"sorted, names", {.socket = names.path()}},
      {"save", {.format = ListFormat::save, .names = false}},
      {"json", {.format = ListFormat::json, .names = false}},
      {"json, names", {.format = ListFormat::json, .socket = names.path()}}};
  const auto pages = names.page_times();
  fmt::print("names: a page\t{:.2f}\tms\nnames: the longest page\t{:.2f}\tms\n", median(pages),
             std::ranges::max(pages));
  bare.run();
  // What the first listing takes for buffers, every listing needs.
  forget_peak();
  const auto before = kilobytes("VmHWM:");
  list(listings.at("unsorted"));
  fmt::print("unsorted: memory\t{:.0f}\tkB\n", kilobytes("VmHWM:") - before);
  const auto without_top = kilobytes("VmRSS:");
  Top top(names.path());
  fmt::print("top: memory of the names\t{:.0f}\tkB\n", kilobytes("VmRSS:") - without_top);
  const auto with_names = kilobytes("VmRSS:");
  for (int reading = 0; reading < 2; ++reading) top.read();
  fmt::print("top: memory of readings\t{:.0f}\tkB\n", kilobytes("VmRSS:") - with_names);
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round < kRounds; ++round) {
    times["bare dump"].push_back(timed([&] { bare.run(); }));
    for (const auto& [name, options] : listings) {
      // A listing begins with no memory that an earlier one has freed, as in its own process.
      ::malloc_trim(0);
      times[name].push_back(timed([&, &some = options] { list(some); }));
    }
    times["top: a reading"].push_back(timed([&] { top.read(); }));
    times["top: a table of Services"].push_back(timed([&] { top.make_table(false); }));
    times["top: a table of backends"].push_back(timed([&] { top.make_table(true); }));
    times["ipvsadm -Ln"].push_back(timed([] { test::shell("ipvsadm -Ln >/dev/null"); }));
  }
  const auto floor = median(times["bare dump"]);
  for (const auto& [name, values] : times)
    fmt::print("{}\t{:.1f}\tms\t{:.1f}\t{:.1f}\n{}: times the bare dump\t{:.2f}\t\n", name,
               median(values), *std::min_element(values.begin(), values.end()),
               *std::max_element(values.begin(), values.end()), name, median(values) / floor);
}

}  // namespace
}  // namespace ipvsproxier::bench

int main(int argc, char** argv) {
  try {
    const auto number = [&](int index, std::uint32_t otherwise) {
      return argc > index ? static_cast<std::uint32_t>(std::stoul(argv[index])) : otherwise;
    };
    ipvsproxier::bench::run(number(1, 10'000), number(2, 10));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "list_bench: %s\n", error.what());
    return 1;
  }
}

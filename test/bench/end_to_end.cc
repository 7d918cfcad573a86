// The daemon as a process that follows the test API server: from its start to everything
// programmed, its memory, and what 10,000 updates add to that.

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "test/bench/kernel_parts.h"
#include "test/bench/measurements.h"
#include "test/bench/wire_objects.h"
#include "test/kernel/daemon.h"
#include "test/support/api_server/api_server.h"
#include "test/support/api_server/kubeconfig.h"
#include "test/support/require.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::bench {
namespace {

constexpr int kLongest = 500'000;  // ms

void put(test::ApiServer& server, const std::string& object) {
  if (const auto done = server.put(object); !done)
    throw std::runtime_error(netlink::to_string(done.error()));
}

// Object by object, and history is forgotten on the way: each three or four pages of a process of
// User Mode Linux are a mapping of its host's, so that vm.max_map_count ends it at some 780 MB,
// whatever the guest's memory; S3's objects and a list of them take 650.
std::unique_ptr<test::ApiServer> server_with(const Size& size) {
  auto server = test::require(test::ApiServer::start({}));
  put(*server, wire_node());
  for (int index = 0; index < size.services; ++index) {
    put(*server, wire_text(service_of(size, index)));
    put(*server, wire_text(slice_of(size, index)));
    if (index % 100 == 0) server->compact();
  }
  server->compact();
  return server;
}

// What comes of a list that is streamed, until it is complete.
struct Fetched {
  static constexpr std::string_view kEnd = "k8s.io/initial-events-end";
  std::size_t bytes = 0;
  std::string tail;

  static std::size_t take(char* data, std::size_t, std::size_t size, void* self) {
    auto& fetched = *static_cast<Fetched*>(self);
    fetched.bytes += size;
    // The end is in the last lines; the mark may be torn between two pieces.
    const auto shown = std::min<std::size_t>(size, 4096);
    fetched.tail.append(data + size - shown, shown);
    const bool ended = fetched.tail.find(kEnd) != std::string::npos;
    if (fetched.tail.size() > 8192) fetched.tail.erase(0, fetched.tail.size() - 4096);
    return ended ? 0 : size;
  }
};

// The three lists, one after the other, by libcurl with nothing done about them. Answers the bytes.
std::size_t fetch_all(const test::ApiServer& server) {
  std::size_t bytes = 0;
  for (const auto resource : test::kResources) {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                   curl_easy_cleanup);
    Fetched fetched;
    const auto url = server.url() + std::string(test::facts_of(resource).path) +
                     "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                     "&allowWatchBookmarks=true&timeoutSeconds=300";
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_BUFFERSIZE, 512 * 1024L);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &Fetched::take);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &fetched);
    if (curl_easy_perform(curl.get()) != CURLE_WRITE_ERROR)
      throw std::runtime_error("no complete list of " + url);
    bytes += fetched.bytes;
  }
  return bytes;
}

// Of another process: the tenth word of its stat.
double minor_faults(pid_t process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  std::string word;
  for (int i = 0; i < 10; ++i) stat >> word;
  return std::stod(word);
}

// The daemon with a configuration for n1.
struct Follower {
  test::TempDir dir;
  test::Daemon daemon;

  Follower(KernelWorld& world, const test::ApiServer& server)
      : daemon(world.netns(), {"--config=" + config(server)}) {}

  std::string config(const test::ApiServer& server) {
    test::KubeconfigParts parts;
    parts.server = server.url();
    std::ofstream(dir.path() / "kubeconfig") << test::kubeconfig(parts);
    std::ofstream(dir.path() / "config.yaml")
        << "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: "
           "ipvs\nhostnameOverride: n1\nclusterCIDR: \"10.128.0.0/9\"\n"
           "ipvs: {minSyncPeriod: 0s, syncPeriod: 3600s}\n"
           "clientConnection: {kubeconfig: "
        << (dir.path() / "kubeconfig").string() << "}\n";
    return dir.path() / "config.yaml";
  }
  // From the start of the process until it says that everything is programmed.
  double start() {
    const double begin = now_ms();
    daemon.start();
    // Each look takes milliseconds of the only processor.
    while (!daemon.logs("synced: ", 0)) {
      if (!daemon.runs() || now_ms() > begin + kLongest)
        throw std::runtime_error("the daemon does not get there:\n" + daemon.log());
      ::usleep(50'000);
    }
    return now_ms() - begin;
  }
};

}  // namespace

void measure_end_to_end(KernelWorld& world, const Size& size) {
  const auto server = server_with(size);
  // The first is not counted: it may find the server's memory fresh.
  fetch_all(*server);
  double begin = now_ms();
  const auto bytes = fetch_all(*server);
  print_figure("curl alone", now_ms() - begin, "ms");
  print_figure("bytes", static_cast<double>(bytes), "");
  Follower follower(world, *server);
  print_figure("time", follower.start(), "ms");
  print_end_state(world);
  print_figure("page faults", minor_faults(follower.daemon.pid()), "");
  const auto memory = follower.daemon.memory();
  print_figure("resident", static_cast<double>(memory.now) / (1 << 20), "MB");
  print_figure("resident at most", static_cast<double>(memory.peak) / (1 << 20), "MB");
  if (follower.daemon.terminate() != 0) throw std::runtime_error(follower.daemon.log());
}

void measure_updates(KernelWorld& world, const Size& size) {
  const int updates = std::min(10'000, 10 * size.services);
  const auto server = server_with(size);
  Follower follower(world, *server);
  follower.start();
  const auto update = [&](int number) {
    const int index = number % size.services;
    auto slice = slice_of(size, index);
    auto list = endpoints_of(slice);
    if ((number / size.services) % 2 == 0) list.pop_back();
    slice.endpoints = list;
    put(*server, wire_text(slice));
    if (number % 1000 == 0) server->compact();
  };
  // The end shows as a Service of its own.
  const auto settle = [&](int number) {
    const int index = size.services + 1 + number * 20;
    const auto service = service_of(size, index);
    const auto before = world.virtual_servers();
    put(*server, wire_text(service));
    while (world.virtual_servers() == before) ::usleep(20'000);
  };
  settle(0);
  const auto before = follower.daemon.memory().now;
  print_figure("resident before", static_cast<double>(before) / (1 << 20), "MB");
  for (int i = 0; i < updates; ++i) update(i);
  settle(1);
  const auto after = follower.daemon.memory().now;
  print_figure("updates", updates, "");
  print_figure("resident after", static_cast<double>(after) / (1 << 20), "MB");
  print_figure("more", (static_cast<double>(after) - static_cast<double>(before)) / 1024, "KB");
}

}  // namespace ipvsproxier::bench

// What a cluster costs in memory. By part: bytes that the allocator has given out, which repeat
// exactly. In all: what of the process is resident, after the first lists and after 10,000 updates,
// and the most that it was. Each size, as the arguments name them, in a process of its own. Host
// only, no kernel.

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "proxier/plan/diff.h"
#include "proxier/plan/planner.h"
#include "proxier/watch/known_objects.h"
#include "test/bench/workload.h"
#include "test/support/kernel_model.h"

namespace ipvsproxier::bench {
namespace {

constexpr int kUpdates = 10'000;

double allocated() {
  const auto info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

// A row of /proc/self/status, in MB.
double status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != name + ":") continue;
    double kilobytes = 0;
    file >> kilobytes;
    return kilobytes / 1024;
  }
  return 0;
}

// As the daemon plans on most nodes, whatever families the cluster has.
plan::PlannerOptions of_both_families() {
  auto options = planner_options();
  options.families = {netlink::Family::ipv4, netlink::Family::ipv6};
  return options;
}

class Daemon {
 public:
  explicit Daemon(const Size& size) : size_(size), planner_(of_both_families()) {
    planner_.set_node(node());
  }

  void run() {
    const double empty = allocated();
    list();
    const double with_objects = allocated();
    touched_.clear();
    planner_.update_all(cluster_);
    const double with_plan = allocated();
    kernel_ = test::KernelModel::empty_for(planner_.desired());
    kernel_.apply(plan::diff(planner_.desired(), kernel_.state));
    const double all = allocated();
    std::printf(
        "%-4.4s objects %7.1f MB  plan %7.1f MB  mirror of the kernel %7.1f MB  all %7.1f MB\n",
        size_.name.data(), with_objects - empty, with_plan - with_objects, all - with_plan,
        all - empty);
    ::malloc_trim(0);
    const double first = status("VmRSS");
    const double most = status("VmHWM");
    for (int i = 0; i < kUpdates; ++i) change(i);
    std::printf(
        "%-4.4s resident %6.1f MB, at most %.1f MB; after %d updates %.1f MB, allocated %.1f MB\n",
        size_.name.data(), first, most, kUpdates, status("VmRSS"), allocated() - empty);
  }

 private:
  void take(model::Changes changes) { touched_.merge(cluster_.take(std::move(changes)).services); }

  template <typename Make>
  void list(watch::KnownObjects& known, Make make) {
    known.begin_list();
    for (int i = 0; i < size_.services; ++i) {
      auto object = make(size_, i);
      const auto name = object.name;
      known.list(name, std::to_string(1'000'000'000 + i), std::move(object));
    }
    model::Changes changes;
    known.end_list("2000000000", {}, changes);
    take(std::move(changes));
  }
  void list() {
    list(services_, service_of);
    list(slices_, slice_of);
  }

  // An endpoint goes, or comes back.
  void change(int number) {
    auto slice = slice_of(size_, number * 7 % size_.services);
    auto endpoints = slice.endpoints.unpack();
    if (number / size_.services % 2 == 0) endpoints.pop_back();
    slice.endpoints = endpoints;
    model::Changes changes;
    const auto name = slice.name;
    slices_.put(name, std::to_string(2'000'000'001 + number), std::move(slice), changes);
    take(std::move(changes));
    const auto scope = planner_.update(std::exchange(touched_, {}), cluster_);
    kernel_.apply(plan::diff(planner_.desired(), kernel_.state, scope));
  }

  const Size& size_;
  watch::KnownObjects services_{api::ObjectKind::service};
  watch::KnownObjects slices_{api::ObjectKind::endpoint_slice};
  model::ClusterState cluster_;
  std::set<api::NamespacedName> touched_;
  plan::Planner planner_;
  test::KernelModel kernel_;
};

}  // namespace
}  // namespace ipvsproxier::bench

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto& size = ipvsproxier::bench::size_of(argv[i]);
    std::fflush(stdout);
    const auto child = ::fork();
    if (child == 0) {
      ipvsproxier::bench::Daemon(size).run();
      std::fflush(stdout);
      ::_exit(0);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

// What a cluster costs in memory, by part: bytes that the allocator has given out, which repeat
// exactly. Host only, no kernel.

#include <malloc.h>

#include <cstdio>

#include "proxier/plan/diff.h"
#include "proxier/plan/planner.h"
#include "test/bench/workload.h"
#include "test/support/kernel_model.h"

namespace ipvsproxier::bench {
namespace {

double megabytes() {
  const auto info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

void run(const Size& size) {
  const double empty = megabytes();
  model::ClusterState cluster;
  const auto touched = cluster.take(first_lists(size));
  const double with_cluster = megabytes();
  plan::Planner planner(planner_options());
  planner.set_node(node());
  planner.update(touched.services, cluster);
  const double with_plan = megabytes();
  auto kernel = test::KernelModel::empty_for(planner.desired());
  kernel.apply(plan::diff(planner.desired(), kernel.state));
  const double all = megabytes();
  std::printf(
      "%-4.4s objects %7.1f MB  plan %7.1f MB  mirror of the kernel %7.1f MB  all %7.1f MB\n",
      size.name.data(), with_cluster - empty, with_plan - with_cluster, all - with_plan,
      all - empty);
}

}  // namespace
}  // namespace ipvsproxier::bench

int main() {
  for (const auto& size : ipvsproxier::bench::kSizes) ipvsproxier::bench::run(size);
  return 0;
}

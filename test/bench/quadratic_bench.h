#pragma once

// What the kernel does in time that grows with what is there, and how the daemon goes around it.
// Rows of kernel_bench.cc's table.

#include "test/bench/kernel_world.h"
#include "test/bench/workload.h"

namespace ipvsproxier::bench {

// What a VIP costs when so many are bound: spread over links as the daemon does, by local routes,
// and on one link; at S1.
void measure_vips(KernelWorld& world, const Size& size);

// What a virtual service with many real servers costs by scheduler, and by when that is bound,
// whatever the size.
void measure_schedulers(KernelWorld& world, const Size& size);

}  // namespace ipvsproxier::bench

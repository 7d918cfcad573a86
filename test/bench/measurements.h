#pragma once

// What kernel_bench measures, each in a fresh guest. Everything is printed as figures
// (print_figure); what fails throws.

#include "test/bench/kernel_world.h"
#include "test/bench/workload.h"

namespace ipvsproxier::bench {

using Measurement = void (*)(KernelWorld&, const Size&);

// ipvsadm -R, ipset restore and ip -batch with what first sync writes.
void measure_peers(KernelWorld& world, const Size& size);

// The reading back of the whole kernel, three times, beside the dumps alone.
void measure_readback(KernelWorld& world, const Size& size);

// Three scrapes of the traffic figures of all Services.
void measure_figures(KernelWorld& world, const Size& size);

// Metadata-only writes and events that come twice, as bytes.
void measure_silence(KernelWorld& world, const Size& size);
// Changes of endpoints at 100 a second, each from its bytes to the kernel's answer.
void measure_load(KernelWorld& world, const Size& size);
void measure_load_unestimated(KernelWorld& world, const Size& size);
// A Service of 1,000 endpoints is rolled at 100 changes a second.
void measure_rolling_update(KernelWorld& world, const Size& size);

// 5,000 real servers replaced twice: prebuilt messages, and the daemon's.
void measure_twice_floor(KernelWorld& world, const Size& size);
void measure_twice(KernelWorld& world, const Size& size);

// The daemon as a process that follows the test API server: the start, and 10,000 updates.
void measure_end_to_end(KernelWorld& world, const Size& size);
void measure_updates(KernelWorld& world, const Size& size);

}  // namespace ipvsproxier::bench

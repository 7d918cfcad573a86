#include "test/bench/allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> allocation_count = 0;

}  // namespace

// Of the program: all others end in these. Memory of malloc(), so that free() fits.
void* operator new(std::size_t size) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace ipvsproxier::bench {

std::uint64_t allocations() {
  return allocation_count.load(std::memory_order_relaxed);
}

}  // namespace ipvsproxier::bench

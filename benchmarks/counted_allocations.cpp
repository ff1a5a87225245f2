// SPDX-License-Identifier: Apache-2.0
#include "counted_allocations.hpp"

#include <gperftools/malloc_hook.h>

#include <atomic>
#include <new>

#include "harness.hpp"

namespace holdfast::bench {

namespace {

std::atomic<std::size_t> count = 0;

void count_one(const void* /*memory*/, std::size_t /*size*/) {
  count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

CountedAllocations::CountedAllocations() {
  require(MallocHook::AddNewHook(count_one), "the allocator takes no hook");
  count = 0;
  ::operator delete(::operator new(1));
  require(count == 1, "the allocator does not call its hook");
  count = 0;
}

CountedAllocations::~CountedAllocations() { MallocHook::RemoveNewHook(count_one); }

std::size_t CountedAllocations::so_far() const noexcept { return count; }

}  // namespace holdfast::bench

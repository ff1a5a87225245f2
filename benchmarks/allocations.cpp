// SPDX-License-Identifier: Apache-2.0
// Replaces the global operator new by one that counts: all forms in use, because a sanitizer brings
// its own for each that is not here.
#include <cstdlib>
#include <new>

#include "harness.hpp"

namespace {

// Per thread, so that counting costs the measured code next to nothing.
thread_local std::uint64_t allocations = 0;

void* counted(void* memory) {
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  ++allocations;
  return memory;
}

}  // namespace

namespace holdfast::bench {

std::uint64_t allocation_count() noexcept { return allocations; }

}  // namespace holdfast::bench

void* operator new(std::size_t size) { return counted(std::malloc(size > 0 ? size : 1)); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(size > 0 ? size : 1);
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t units = size / unit + (size % unit != 0 || size == 0 ? 1 : 0);
  return counted(std::aligned_alloc(unit, units * unit));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return operator new(size, alignment);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*size*/,
                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

//===- Heap.cpp - Bytes that an operation takes ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Wraps glibc's allocator. Replacing operator new is not enough: LLVM's vectors
// and MLIR's operations call malloc themselves.
//
//===----------------------------------------------------------------------===//

#include "Heap.h"
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <malloc.h>

using namespace pipesched;
using namespace pipesched::bench;

// NOLINTBEGIN(readability-identifier-naming): glibc's names
extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *pointer);
}
// NOLINTEND(readability-identifier-naming)

static std::atomic<bool> isCounting{false};
static std::atomic<int64_t> liveBytes{0}, peakBytes{0};

static void *noteAllocation(void *pointer) {
  if (!isCounting.load(std::memory_order_relaxed) || !pointer)
    return pointer;
  int64_t size = malloc_usable_size(pointer);
  int64_t live = liveBytes.fetch_add(size, std::memory_order_relaxed) + size;
  int64_t peak = peakBytes.load(std::memory_order_relaxed);
  while (live > peak && !peakBytes.compare_exchange_weak(
                            peak, live, std::memory_order_relaxed))
    ;
  return pointer;
}

static void noteRelease(void *pointer) {
  if (isCounting.load(std::memory_order_relaxed) && pointer)
    liveBytes.fetch_sub(malloc_usable_size(pointer), std::memory_order_relaxed);
}

// NOLINTBEGIN(readability-identifier-naming): C's names
extern "C" {
void *malloc(size_t size) { return noteAllocation(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) {
  return noteAllocation(__libc_calloc(count, size));
}

void *realloc(void *pointer, size_t size) {
  noteRelease(pointer);
  void *moved = __libc_realloc(pointer, size);
  // On failure the old block is still allocated.
  noteAllocation(moved || size == 0 ? moved : pointer);
  return moved;
}

void *aligned_alloc(size_t alignment, size_t size) {
  return noteAllocation(__libc_memalign(alignment, size));
}

void *memalign(size_t alignment, size_t size) {
  return noteAllocation(__libc_memalign(alignment, size));
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
  *pointer = noteAllocation(__libc_memalign(alignment, size));
  return *pointer ? 0 : ENOMEM;
}

void free(void *pointer) {
  noteRelease(pointer);
  __libc_free(pointer);
}
}
// NOLINTEND(readability-identifier-naming)

HeapCounter::HeapCounter() {
  ::liveBytes = 0;
  ::peakBytes = 0;
  isCounting = true;
}

HeapCounter::~HeapCounter() { isCounting = false; }

int64_t HeapCounter::liveBytes() const { return ::liveBytes; }

int64_t HeapCounter::peakBytes() const { return ::peakBytes; }

void bench::keepFreedPages() {
  mallopt(M_MMAP_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

void bench::dropFreedPages() { malloc_trim(/*pad=*/0); }

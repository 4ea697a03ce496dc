//===- Heap.h - Bytes that an operation takes -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the heap growth of one operation in malloc and free; counting is off
// while time is measured. Also decides whether an operation gets fresh pages
// from the kernel.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_BENCHMARKS_HEAP_H
#define PIPESCHED_BENCHMARKS_HEAP_H

#include <cstdint>

namespace pipesched::bench {

/// Counts from construction to destruction, for all threads together; only one
/// object may exist at a time. Bytes count the memory that the allocator
/// reserved, a little more than was requested.
class HeapCounter {
public:
  HeapCounter();
  ~HeapCounter();
  HeapCounter(const HeapCounter &) = delete;
  HeapCounter &operator=(const HeapCounter &) = delete;

  /// Allocated and not freed since construction.
  int64_t liveBytes() const;
  /// The peak of that since construction.
  int64_t peakBytes() const;
};

/// Makes malloc keep freed memory for later allocations. By default it keeps
/// only small blocks, and for large arrays the time of the kernel to supply
/// fresh pages would hide the time of the operation.
void keepFreedPages();

/// Returns all free memory to the kernel, as if the process had just started.
void dropFreedPages();

} // namespace pipesched::bench

#endif // PIPESCHED_BENCHMARKS_HEAP_H

//===- Heap.h - Bytes that an operation takes -------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Heap growth of one operation, counted where malloc and free pass by; counting
// is off while time is taken. And who pays for fresh pages.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_BENCHMARKS_HEAP_H
#define PIPESCHED_BENCHMARKS_HEAP_H

#include <cstdint>

namespace pipesched::bench {

/// Counts from construction to destruction, all threads together; one object at
/// a time. Bytes are those that the allocator set aside, which is a little more
/// than was asked for.
class HeapCounter {
public:
  HeapCounter();
  ~HeapCounter();
  HeapCounter(const HeapCounter &) = delete;
  HeapCounter &operator=(const HeapCounter &) = delete;

  /// Allocated and not freed since construction.
  int64_t liveBytes() const;
  /// The most that ever was.
  int64_t peakBytes() const;
};

/// Lets malloc keep what is freed for what is allocated next. By default it
/// does so with small arrays only, so that for large ones the kernel's time to
/// find fresh pages would drown the operation's.
void keepFreedPages();

/// Gives everything that is free back to the kernel, as if the process had just
/// started.
void dropFreedPages();

} // namespace pipesched::bench

#endif // PIPESCHED_BENCHMARKS_HEAP_H

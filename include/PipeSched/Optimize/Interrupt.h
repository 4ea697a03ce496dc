//===- Interrupt.h - SIGINT during a search ---------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A search ends soon after SIGINT. A host that handles SIGINT, such as Python,
// gets the signal when the search has ended.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_INTERRUPT_H
#define PIPESCHED_OPTIMIZE_INTERRUPT_H

#include <atomic>

namespace pipesched::optimize {

/// While one of these lives, SIGINT sets a flag for SolverOptions::interrupted
/// instead of going to the handler of the process, which gets it when the last
/// of them ends. In a process without a handler the signal still ends the
/// process. Any number may live, on any threads. Does nothing where there are
/// no POSIX signals.
class InterruptWatch {
public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch &) = delete;
  InterruptWatch &operator=(const InterruptWatch &) = delete;

  const std::atomic<bool> *flag() const;

  /// The flag if a watch lives anywhere in the process, else null. For code
  /// that stops when its host is interrupted but must not handle signals.
  static const std::atomic<bool> *current();
};

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_INTERRUPT_H

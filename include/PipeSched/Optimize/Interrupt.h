//===- Interrupt.h - Ctrl-C while a search runs -----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A host that handles SIGINT, such as Python, gets it when the search has
// ended, which it does at once.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_INTERRUPT_H
#define PIPESCHED_OPTIMIZE_INTERRUPT_H

#include <atomic>

namespace pipesched::optimize {

/// While one of these lives, SIGINT sets a flag for SolverOptions::interrupted
/// instead of going to the handler of the process, which gets it when the last
/// of them ends. A process without a handler is left to be ended by the signal.
/// Any number, on any threads. Does nothing where there are no POSIX signals.
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

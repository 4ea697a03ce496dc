//===- Interrupt.h - SIGINT during long work --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets a search, or a wait for input, end soon after SIGINT. A host that
// handles SIGINT, such as Python, receives the signal when the search or the
// wait has ended.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_INTERRUPT_H
#define PIPESCHED_SUPPORT_INTERRUPT_H

#include <atomic>

namespace pipesched {

/// While an object of this class exists, SIGINT sets a flag
/// (SolverOptions::interrupted) instead of calling the handler of the process.
/// That handler is called when the last such object is destroyed; in a process
/// without a handler the signal then ends the process. Any number of objects
/// may exist, on any threads. Does nothing on systems without POSIX signals.
class InterruptWatch {
public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch &) = delete;
  InterruptWatch &operator=(const InterruptWatch &) = delete;

  const std::atomic<bool> *flag() const;

  /// Returns the flag if a watch exists anywhere in the process, else null. For
  /// code that stops when its host is interrupted but must not handle signals.
  static const std::atomic<bool> *current();
};

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_INTERRUPT_H

//===- Interrupt.h - SIGINT during long work --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lets a search, or a wait for input, end soon after SIGINT. A host that
// handles SIGINT, such as Python, gets the signal once the search or the wait
// has ended.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_INTERRUPT_H
#define PIPESCHED_SUPPORT_INTERRUPT_H

#include <atomic>

namespace pipesched {

/// While one of these exists, SIGINT sets a flag (SolverOptions::interrupted)
/// instead of calling the handler of the process, which is called when the last
/// of them ends. In a process without a handler the signal still ends the
/// process. Any number may exist, on any threads. Does nothing on systems
/// without POSIX signals.
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

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_INTERRUPT_H

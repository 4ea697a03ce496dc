//===- PairMessages.h - The two ends of each message ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links each send with its receive.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ADAPTER_PAIRMESSAGES_H
#define PIPESCHED_LIB_ADAPTER_PAIRMESSAGES_H

#include "PipeSched/Schedule/Program/Program.h"

namespace pipesched {

/// Sets the `partner` of all messages of a verified program: a cell is sent by
/// one worker and to each other worker at most once, and each send has a
/// receive. Linear in instructions, unless a worker sends or receives the cells
/// of a stage and phase out of order; then these are sorted.
void pairMessages(Program &program);

} // namespace pipesched

#endif // PIPESCHED_LIB_ADAPTER_PAIRMESSAGES_H

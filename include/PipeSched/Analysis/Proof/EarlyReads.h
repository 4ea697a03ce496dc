//===- EarlyReads.h - Instructions that do not wait -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds an instruction that may start before its input data has arrived. In a
// program made from a table, every instruction waits for its inputs; in a
// hand-written program some may not.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_PROOF_EARLYREADS_H
#define PIPESCHED_ANALYSIS_PROOF_EARLYREADS_H

#include "PipeSched/Schedule/Program/Program.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// Two instructions of one worker: `reader` needs data that `source` makes,
/// receives or reloads, but does not wait for `source`.
struct EarlyRead {
  uint32_t reader, source;
};

/// Finds the first reader, in the order of the program, that does not wait for
/// one of its sources; nothing if all wait.
///
/// The sources of a cell are the instructions of its worker that make or
/// receive the inputs of the cell by the rules of Dependences.h; for an O, the
/// all-reduces of its stage. Sources that the program does not contain are
/// ignored, because a program may be a part of a step.
///
/// An instruction waits for its operands, for the operands of the joins that
/// hold it, and for everything that these instructions wait for. A compute also
/// waits for the computes before it. Linear if each instruction has its sources
/// as operands.
std::optional<EarlyRead> findEarlyRead(const Program &program,
                                       const Placement &placement,
                                       GradientAfter gradientAfter);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_PROOF_EARLYREADS_H

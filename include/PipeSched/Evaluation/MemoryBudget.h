//===- MemoryBudget.h - What a worker may hold ------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Budgets in activations or bytes, and the proof that a table keeps to one on
// every worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_MEMORYBUDGET_H
#define PIPESCHED_EVALUATION_MEMORYBUDGET_H

#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

struct MemoryBudget {
  enum class Unit : uint8_t {
    Activations, ///< of one stage and microbatch, held whole
    Bytes,       ///< all that a worker holds
    System       ///< bytes, as many as a worker of the system has
  };
  Unit unit = Unit::Activations;
  int64_t amount = 0; ///< not of System
};

/// Reads "4", "80GiB", "64.5GB", "4096B" or "system". Units of bytes are B, kB
/// to PB (powers of 1000) and KiB to PiB (of 1024); a number may have three
/// digits after the point, and what is left of a byte is dropped. Errors quote
/// the text: anything else; an amount of 0; bytes over int64.
llvm::Expected<MemoryBudget> parseMemoryBudget(llvm::StringRef text);

/// Checks that no worker of a complete table ever holds more.
///
/// Activations: F holds one until B or W; one that an R makes again counts from
/// R on; one that is offloaded does not count from the end of its D to the
/// start of its U. Bytes: those of computeMemory, which need a model.
///
/// What a worker holds depends on the order of its row only, unless there are D
/// or U: then the table is timed. Linear in cells.
///
/// Errors, as ViolationError: a worker over the budget, the one that exceeds it
/// most, at the cell at which it holds most, with what it holds. Others: bytes
/// without a model; System without a system, or one that does not say how much
/// memory it has; those of computeMemory, lowerTable, buildTaskGraph; with D or
/// U also those of computeStageCosts.
llvm::Error verifyMemory(const TableView &table, const CostInputs &costs,
                         const MemoryBudget &budget,
                         const TimingOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_MEMORYBUDGET_H

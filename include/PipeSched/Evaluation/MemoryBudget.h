//===- MemoryBudget.h - Memory budgets of workers ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Budgets in activations or bytes, and the check that a table stays within a
// budget on every worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EVALUATION_MEMORYBUDGET_H
#define PIPESCHED_EVALUATION_MEMORYBUDGET_H

#include "PipeSched/Analysis/Memory/AnyTimeMemory.h"
#include "PipeSched/Evaluation/Evaluate.h"

namespace pipesched {

struct MemoryBudget {
  enum class Unit : uint8_t {
    Activations, ///< full activations of one stage and microbatch
    Bytes,       ///< all memory of a worker, in bytes
    System       ///< bytes: the capacity of a worker of the system
  };
  Unit unit = Unit::Activations;
  int64_t amount = 0; ///< unused for System
};

/// Reads "4", "80GiB", "64.5GB", "4096B" or "system". Units of bytes are B, kB
/// to PB (powers of 1000) and KiB to PiB (powers of 1024). A number may have
/// three digits after the point; fractions of a byte are dropped. Errors quote
/// any other text, an amount of 0, and bytes over int64.
llvm::Expected<MemoryBudget> parseMemoryBudget(llvm::StringRef text);

/// Returns the most activations that each worker holds at the times of an
/// execution: as in TableMetrics, but an offloaded activation does not count
/// from the end of its D to the start of its U.
llvm::Expected<std::vector<int64_t>>
countActivations(const Execution &execution, const Placement &placement);

/// Checks that no worker of a complete table ever holds more than the budget.
///
/// In activations: an activation counts from F until B or W; a recomputed one
/// counts from its R on; an offloaded one does not count from the end of its D
/// to the start of its U. In bytes: as in computeMemory, which needs a model.
///
/// The memory of a worker depends only on the order of its row, unless there
/// are D or U. With D or U, MemoryTimes::Any proves the budget for all times,
/// from the waits (AnyTimeMemory.h); an offload counts until an instruction
/// waits for it. MemoryTimes::Given computes the times of the table and proves
/// the budget only for these. Linear in cells.
///
/// Errors, as ViolationError: the worker that exceeds the budget most, at the
/// cell at which it holds most, with its memory. Other errors: bytes without a
/// model; System without a system or its memory size; as for lowerTable and
/// computeAnyTimePeaks or computeMemory, and with D or U for given times also
/// errors of buildTaskGraph and computeStageCosts.
llvm::Error verifyMemory(const TableView &table, const CostInputs &costs,
                         const MemoryBudget &budget, MemoryTimes times,
                         const TimingOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_EVALUATION_MEMORYBUDGET_H

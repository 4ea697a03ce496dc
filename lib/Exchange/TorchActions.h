//===- TorchActions.h - Rows as PyTorch's runtime runs them -----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What PyTorch does to a compute-only row when it loads one:
// _add_unshard_reshard, then _add_reduce_grad
// (torch/distributed/pipelining/schedules.py, 2.13). Messages come after them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EXCHANGE_TORCHACTIONS_H
#define PIPESCHED_LIB_EXCHANGE_TORCHACTIONS_H

#include "TorchToken.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace pipesched {

/// An action of a rank: an entry of its row, or an action on the parameters of
/// a stage.
struct TorchAction {
  TorchToken::Kind kind = TorchToken::Compute;
  int32_t stage = 0; ///< of UNSHARD, RESHARD and REDUCE_GRAD
  int64_t entry = 0; ///< in the row; of a pair, the first of its two
};

/// The cells of a row, without idle entries, and the actions on parameters:
///
///   UNSHARD      before a cell, for those of the next three stages of the row
///                that are resharded, in the order in which they come
///   RESHARD      before these, for unsharded stages that are not among the
///                next three; and at the end of the row
///   REDUCE_GRAD  after the last weight gradient (B or W) of each stage
///
/// `row` passes verifyRow and has phases F, B, I and W only; each of its stages
/// runs `numMicrobatches`. RESHARDs that stand together have the order of a set
/// of CPython, as in PyTorch. Linear.
std::vector<TorchAction> addParameterActions(llvm::ArrayRef<Cell> row,
                                             int64_t numMicrobatches);

} // namespace pipesched

#endif // PIPESCHED_LIB_EXCHANGE_TORCHACTIONS_H

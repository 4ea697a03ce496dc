//===- Training.h - What linked programs start from -------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parameters before the first step, the places of the losses and the paces,
// as data beside the functions of a schedule: the runtime's PipeschedTraining.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_TRAINING_H
#define PIPESCHED_RUN_TRAINING_H

#include "PipeSched/Run/State.h"

namespace llvm {
class Module;
} // namespace llvm

namespace pipesched::run {

struct Training {
  int64_t steps;
  /// The block of the model, and where its tensors are.
  const PersistentLayout &model;
  const Memory &start;
  llvm::ArrayRef<PersistentLayout> layouts; ///< by worker
  /// By worker how many ns its instructions last at least, by their number in
  /// the log; empty where they last as long as they take.
  llvm::ArrayRef<std::vector<int64_t>> paces;
};

/// Adds a constant of this name that the runtime takes, and all that it points
/// to. Parameters that several workers hold are there once, those of zeros not
/// at all.
void addTraining(llvm::Module &module, const Training &training,
                 llvm::StringRef name);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_TRAINING_H

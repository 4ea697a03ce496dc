//===- VerifyStages.h - Functions of stages together ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of what the functions of a pipeline have in common; fills in the
// tensors that they share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_VERIFYSTAGES_H
#define PIPESCHED_LIB_STAGES_VERIFYSTAGES_H

#include "PipeSched/Stages/StageFunctions.h"

namespace pipesched {

/// The number of stages of each path of `owner`; without paths, that of its
/// clauses. Errors: paths of different length or with different splits.
mlir::FailureOr<int64_t> countStages(pipe::PlacementOwnerOpInterface owner);

/// Sets the tensors of every stage from the roles of its functions and verifies
/// that functions agree, within a stage and from stage to stage.
mlir::LogicalResult verifyStageFunctions(StageFunctions &functions);

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_VERIFYSTAGES_H

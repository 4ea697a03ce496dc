//===- ResizeModel.h - A model in other microbatches ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Facts of a model are those of one microbatch size. Weights are read once
// however large a microbatch is, so that those of another size do not follow
// from them; the architecture that they were expanded from has them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_RESIZEMODEL_H
#define PIPESCHED_DESCRIPTION_RESIZEMODEL_H

#include "PipeSched/Facts/Facts.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// The facts of a model for microbatches of `size` sequences: those of one of
/// `others` (areSizesOfOne), or else those that a description which ships with
/// the library is expanded to by the options with which it gives just `model`.
/// Errors, which go on from "the schedule ": neither; several of `others`;
/// those of expandArchitecture.
llvm::Expected<ModelFacts> resizeModel(const ModelFacts &model, int64_t size,
                                       llvm::ArrayRef<ModelFacts> others);

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_RESIZEMODEL_H

//===- ResizeModel.h - A model in other microbatches ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Facts of a model hold for one microbatch size. Facts for another size cannot
// be scaled, because weights are read once whatever the size. They have to be
// expanded again from the architecture.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_RESIZEMODEL_H
#define PIPESCHED_DESCRIPTION_RESIZEMODEL_H

#include "PipeSched/Facts/Facts.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// The facts of a model for microbatches of `size` sequences. They come from
/// the one model in `others` that differs only in size (areSizesOfOne), or else
/// from a shipped description that gives exactly `model` under some options.
/// Error texts continue "the schedule ": neither is found; several of `others`
/// match; those of expandArchitecture.
llvm::Expected<ModelFacts> resizeModel(const ModelFacts &model, int64_t size,
                                       llvm::ArrayRef<ModelFacts> others);

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_RESIZEMODEL_H

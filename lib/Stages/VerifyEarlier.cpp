//===- VerifyEarlier.cpp - What slices of a microbatch pass on ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slice reads residuals of the slices before it, such as keys and values, and
// its backward adds to their gradients. Without these gradients a model would
// train as another one without a word, so that a stage must give them.
//
//===----------------------------------------------------------------------===//

#include "VerifyStages.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

using Kind = StageFunctionKind;
using Role = StageRole;

/// Slices x the shape of the residual of forward.
static LogicalResult verifyType(const Stage &stage, const NamedTensor &earlier,
                                int64_t numSlices) {
  const RoleValue *residual =
      stage.get(Kind::Forward)->findResult(Role::Residual, earlier.name);
  if (!residual)
    return emitTableError(stage.op)
           << "takes a pipe.earlier \"" << earlier.name
           << "\", and forward gives no pipe.residual of that name";
  RankedTensorType one = residual->getTensorType();
  SmallVector<int64_t> shape{numSlices};
  llvm::append_range(shape, one.getShape());
  auto wanted = RankedTensorType::get(shape, one.getElementType());
  if (earlier.type == wanted)
    return success();
  return emitTableError(stage.op)
         << "has " << earlier.type << " as its pipe.earlier \"" << earlier.name
         << "\"; expected " << wanted << ", its pipe.residual for each of "
         << numSlices << (numSlices == 1 ? " slice" : " slices");
}

static LogicalResult verifyGiven(const Stage &stage, const NamedTensor &earlier,
                                 const StageFunction &backward) {
  if (backward.findResult(Role::EarlierGradient, earlier.name))
    return success();
  return emitTableError(backward.op)
         << "is the " << enumName(backward.kind) << " of stage " << stage.number
         << ", which takes a pipe.earlier \"" << earlier.name
         << "\", but gives no pipe.earlier_gradient of that name: the "
            "gradients "
            "of earlier slices would be lost";
}

LogicalResult pipesched::verifyEarlier(const Stage &stage, int64_t numSlices) {
  for (const NamedTensor &earlier : stage.earlier) {
    if (failed(verifyType(stage, earlier, numSlices)))
      return failure();
    if (!isa<FloatType>(earlier.type.getElementType()))
      continue;
    for (Kind kind : {Kind::Backward, Kind::InputGradient})
      if (const StageFunction *function = stage.get(kind))
        if (failed(verifyGiven(stage, earlier, *function)))
          return failure();
  }
  for (const NamedTensor &gradient : stage.earlierGradients) {
    const auto *earlier =
        llvm::find_if(stage.earlier, [&](const NamedTensor &tensor) {
          return tensor.name == gradient.name;
        });
    if (earlier == stage.earlier.end())
      return emitTableError(stage.op)
             << "has a pipe.earlier_gradient \"" << gradient.name
             << "\" and takes no pipe.earlier of that name";
    if (gradient.type.getShape() != earlier->type.getShape())
      return emitTableError(stage.op)
             << "has " << gradient.type << " as its pipe.earlier_gradient \""
             << gradient.name << "\", and its pipe.earlier is " << earlier->type
             << "; expected the same shape";
  }
  return success();
}

LogicalResult pipesched::verifyTellsSlices(const StageFunction &function,
                                           int64_t numSlices) {
  if (numSlices == 1 || function.findArgument(Role::Slice))
    return success();
  return emitTableError(function.op)
         << "is the " << enumName(function.kind) << " of " << numSlices
         << " slices a microbatch and takes no pipe.slice, so that all slices "
            "would have the same; functions of whole microbatches need a "
            "schedule without slices";
}

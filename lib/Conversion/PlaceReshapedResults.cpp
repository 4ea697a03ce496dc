//===- PlaceReshapedResults.cpp - Results in place behind reshapes --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel copies its results to where they are stored. For
//
//   %y = op outs(%empty : tensor<2x3xf32>)
//   %x = reshape %y : tensor<2x3xf32> into tensor<6xf32>
//   copy %x to %place : tensor<6xf32>
//
// `op` begins with the place, reshaped the other way, instead of %empty.
// Upstream's elimination of empty tensors does so without reshapes.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Conversion/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

namespace pipesched {
#define GEN_PASS_DEF_PLACERESHAPEDRESULTSPASS
#include "PipeSched/Conversion/Passes.h.inc"
} // namespace pipesched

using namespace mlir;
using namespace pipesched;

namespace {
/// Where what is copied begins as an empty tensor.
struct Origin {
  OpOperand *start;                  ///< in `outs` of an op
  SmallVector<Operation *> reshapes; ///< from the copy to that op
};
} // namespace

/// None without a reshape.
static std::optional<Origin> findOrigin(linalg::CopyOp copy) {
  Origin origin{nullptr, {}};
  size_t numReshapes = 0;
  Value value = copy.getInputs()[0];
  while (Operation *op = value.getDefiningOp()) {
    if (op->getBlock() != copy->getBlock())
      return std::nullopt;
    auto style = dyn_cast<DestinationStyleOpInterface>(op);
    if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
      origin.reshapes.push_back(op);
      value = op->getOperand(0);
    } else if (style && style.hasPureTensorSemantics()) {
      origin.start = style.getTiedOpOperand(cast<OpResult>(value));
      numReshapes = origin.reshapes.size();
      value = origin.start->get();
    } else if (isa<tensor::EmptyOp>(op) && numReshapes) {
      origin.reshapes.resize(numReshapes);
      return origin;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// The tensor of which a reshape makes `value`, or would if it were computed.
static Value undoReshape(OpBuilder &builder, Operation *reshape, Value value) {
  auto type = cast<RankedTensorType>(reshape->getOperand(0).getType());
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(reshape))
    return tensor::ExpandShapeOp::create(builder, reshape->getLoc(), type,
                                         value,
                                         collapse.getReassociationIndices());
  auto expand = cast<tensor::ExpandShapeOp>(reshape);
  return tensor::CollapseShapeOp::create(builder, reshape->getLoc(), type,
                                         value,
                                         expand.getReassociationIndices());
}

static bool isStatic(Value value) {
  return cast<RankedTensorType>(value.getType()).hasStaticShape();
}

namespace {
struct PlaceReshapedResultsPass
    : pipesched::impl::PlaceReshapedResultsPassBase<PlaceReshapedResultsPass> {
  void runOnOperation() override {
    DominanceInfo dominance(getOperation());
    getOperation().walk([&](linalg::CopyOp copy) {
      if (copy.hasPureTensorSemantics())
        place(copy, dominance);
    });
  }

  void place(linalg::CopyOp copy, DominanceInfo &dominance) {
    std::optional<Origin> origin = findOrigin(copy);
    Value place = copy.getOutputs()[0];
    if (!origin || !isStatic(place) || !place.hasOneUse() ||
        !dominance.properlyDominates(place, origin->start->getOwner()) ||
        !llvm::all_of(origin->reshapes, [](Operation *reshape) {
          return isStatic(reshape->getOperand(0));
        }))
      return;
    OpBuilder builder(origin->start->getOwner());
    for (Operation *reshape : origin->reshapes)
      place = undoReshape(builder, reshape, place);
    origin->start->set(place);
  }
};
} // namespace

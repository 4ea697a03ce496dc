//===- FlattenFragments.cpp - Fragments as ops with a stage ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the output of Shardy's MPMD partitioner in generic form, so that its
// dialect need not be there: a fragment names its stage by `stage_id`, and its
// phase by the transpose counts of its origins, such as "layer"(1) for the
// derivative of a computation.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/OutlineStages.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static bool isNamed(Operation *op, StringRef name) {
  return op->getName().getStringRef() == name;
}

/// The phase of a fragment; null, with an error, if nothing names it.
static StringAttr readPhase(Operation *fragment) {
  if (auto phase = fragment->getAttrOfType<StringAttr>(kPhaseAttrName))
    return phase;
  std::optional<int64_t> count;
  bool isOne = true;
  llvm::Regex transposed("\"\\(([0-9]+)\\)");
  if (auto origins = fragment->getAttrOfType<ArrayAttr>("origin"))
    for (Attribute origin : origins) {
      std::string text;
      llvm::raw_string_ostream(text) << origin;
      SmallVector<StringRef> groups;
      int64_t found = 0;
      if (transposed.match(text, &groups) && groups[1].getAsInteger(10, found))
        found = -1;
      isOne &= !count || *count == found;
      count = found;
    }
  if (count && isOne && (*count == 0 || *count == 1))
    return StringAttr::get(fragment->getContext(),
                           enumName(*count == 0 ? StageFunctionKind::Forward
                                                : StageFunctionKind::Backward));
  fragment->emitOpError()
      << "has no phase; expected " << kPhaseAttrName
      << ", or origins that all have the transpose count 0 (forward) or all 1 "
         "(backward)";
  return {};
}

/// Gives an argument of the function that is a mesh tensor the type that it has
/// in fragments.
static LogicalResult connect(Operation *fragment, unsigned index,
                             BlockArgument inner, func::FuncOp function) {
  Value operand = fragment->getOperand(index);
  auto argument = dyn_cast<BlockArgument>(operand);
  if (argument && argument.getOwner() == &function.getBody().front() &&
      !isa<TensorType>(operand.getType()))
    operand.setType(inner.getType());
  if (operand.getType() != inner.getType())
    return fragment->emitOpError()
           << "takes " << operand.getType() << " as its operand " << index
           << ", and its region " << inner.getType();
  inner.replaceAllUsesWith(operand);
  return success();
}

static LogicalResult flatten(Operation *fragment, func::FuncOp function) {
  auto stage = fragment->getAttrOfType<IntegerAttr>("stage_id");
  if (!stage)
    stage = fragment->getAttrOfType<IntegerAttr>(kStageAttrName);
  StringAttr phase = readPhase(fragment);
  if (!phase)
    return failure();
  if (!stage || stage.getValue().getActiveBits() >= 32)
    return fragment->emitOpError()
           << "does not have a stage_id that is the number of a stage from 0";
  if (fragment->getNumRegions() != 1 ||
      !llvm::hasSingleElement(fragment->getRegion(0)) ||
      fragment->getRegion(0).front().empty())
    return fragment->emitOpError() << "does not have one region of one block";
  Block &body = fragment->getRegion(0).front();
  Operation *end = &body.back();
  if (body.getNumArguments() != fragment->getNumOperands() ||
      end->getNumOperands() != fragment->getNumResults())
    return fragment->emitOpError()
           << "has " << fragment->getNumOperands() << " operands and "
           << fragment->getNumResults() << " results; its region takes "
           << body.getNumArguments() << " and returns "
           << end->getNumOperands();
  for (BlockArgument inner : body.getArguments())
    if (failed(connect(fragment, inner.getArgNumber(), inner, function)))
      return failure();
  for (Operation &op : body.without_terminator()) {
    op.setAttr(kStageAttrName, stage);
    op.setAttr(kPhaseAttrName, phase);
  }
  for (auto [result, returned] :
       llvm::zip(fragment->getResults(), end->getOperands()))
    result.replaceAllUsesWith(returned);
  end->erase();
  fragment->getBlock()->getOperations().splice(fragment->getIterator(),
                                               body.getOperations());
  fragment->erase();
  return success();
}

LogicalResult pipesched::flattenFragments(func::FuncOp function) {
  if (!llvm::hasSingleElement(function.getBody()))
    return success();
  Block &body = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (isNamed(&op, "mpmd.fragment")) {
      if (failed(flatten(&op, function)))
        return failure();
    } else if (isNamed(&op, "mpmd.transfer") && op.getNumOperands() == 1 &&
               op.getNumResults() == 1) {
      op.getResult(0).replaceAllUsesWith(op.getOperand(0));
      op.erase();
    }
  }
  function.setFunctionType(
      FunctionType::get(function.getContext(), body.getArgumentTypes(),
                        body.getTerminator()->getOperandTypes()));
  return success();
}

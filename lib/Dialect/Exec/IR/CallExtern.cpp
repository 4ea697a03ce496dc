//===- CallExtern.cpp - Calls of other compilers' code --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of operands, the effects and the checks of exec.call_extern.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/CallExtern.h"

using namespace mlir;
using namespace pipesched::exec;

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Exec/IR/ExecCallOps.cpp.inc"

SmallVector<OpOperand *> CallExternOp::getOperandsInOrder() {
  MutableOperandRange inputs = getInputsMutable(), inits = getInitsMutable();
  ArrayRef<int64_t> places = getInPlace();
  size_t numArguments =
      inputs.size() +
      llvm::count_if(places, [](int64_t place) { return place >= 0; });
  SmallVector<OpOperand *> operands;
  auto nextInput = inputs.begin();
  for (size_t place = 0; place < numArguments; ++place) {
    const auto *found = llvm::find(places, static_cast<int64_t>(place));
    operands.push_back(found != places.end() ? &inits[found - places.begin()]
                                             : &*nextInput++);
  }
  for (auto [init, place] : llvm::zip_equal(inits, places))
    if (place < 0)
      operands.push_back(&init);
  return operands;
}

void CallExternOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  auto add = [&](OpOperand &operand, bool reads, bool writes) {
    if (!isa<BaseMemRefType>(operand.get().getType()))
      return;
    if (reads)
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    if (writes)
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
  };
  for (OpOperand &input : getInputsMutable())
    add(input, /*reads=*/true, /*writes=*/false);
  for (auto [index, init] : llvm::enumerate(getInitsMutable()))
    add(init, readsInit(index), /*writes=*/true);
}

/// call_extern_c1
static LogicalResult verifyPlaces(CallExternOp op) {
  ArrayRef<int64_t> places = op.getInPlace();
  if (places.size() != op.getInits().size())
    return op.emitOpError("has ")
           << places.size() << " numbers in in_place, expected "
           << op.getInits().size() << ", one for each of outs";
  int64_t numArguments =
      op.getInputs().size() +
      llvm::count_if(places, [](int64_t place) { return place >= 0; });
  for (auto [index, place] : llvm::enumerate(places)) {
    if (place < -1 || place >= numArguments)
      return op.emitOpError("has ")
             << place << " in in_place, expected -1 or 0 to "
             << numArguments - 1;
    if (place >= 0 && llvm::is_contained(places.take_front(index), place))
      return op.emitOpError("has ") << place << " in in_place twice";
  }
  return success();
}

LogicalResult CallExternOp::verify() {
  if (failed(verifyPlaces(*this)))
    return failure();
  for (Type type : getOperandTypes())
    if (auto shaped = dyn_cast<ShapedType>(type))
      if (!shaped.hasStaticShape()) // call_extern_c2
        return emitOpError("has an operand of type ")
               << type << ", expected sizes that are all known";
  auto isMemRef = [](Type type) { return isa<BaseMemRefType>(type); };
  auto isTensor = [](Type type) { return isa<TensorType>(type); };
  bool hasMemRefs = llvm::any_of(getOperandTypes(), isMemRef);
  if (hasMemRefs && llvm::any_of(getOperandTypes(), isTensor))
    return emitOpError("has tensors and memrefs; expected one of them");
  size_t wanted = hasMemRefs ? 0 : getInits().size();
  if (getNumResults() != wanted) // call_extern_c3
    return emitOpError("has ")
           << getNumResults() << " results, expected " << wanted;
  return success();
}

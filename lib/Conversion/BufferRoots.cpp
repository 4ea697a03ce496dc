//===- BufferRoots.cpp - Which memrefs may overlap ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Follows memrefs to what they are made of.
//
//===----------------------------------------------------------------------===//

#include "BufferRoots.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

Value pipesched::bufferRootOf(Value memref) {
  while (Operation *op = memref.getDefiningOp()) {
    if (isa<memref::AllocOp, memref::AllocaOp, memref::GetGlobalOp>(op))
      return memref;
    if (!isa<memref::CollapseShapeOp, memref::ExpandShapeOp, memref::SubViewOp>(
            op))
      return {};
    memref = op->getOperand(0);
  }
  Operation *owner = cast<BlockArgument>(memref).getOwner()->getParentOp();
  return isa<func::FuncOp>(owner) ? memref : Value();
}

static bool isUnique(BlockArgument argument) {
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function && argument.getOwner()->isEntryBlock() &&
         function.getArgAttr(argument.getArgNumber(),
                             LLVM::LLVMDialect::getNoAliasAttrName());
}

bool pipesched::mayOverlap(Value root, Value other) {
  if (!root || !other || root == other)
    return true;
  auto argument = dyn_cast<BlockArgument>(root);
  auto otherArgument = dyn_cast<BlockArgument>(other);
  return argument && otherArgument && !isUnique(argument) &&
         !isUnique(otherArgument);
}

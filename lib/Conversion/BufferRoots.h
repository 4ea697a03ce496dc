//===- BufferRoots.h - Which memrefs may overlap ----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the memrefs of one function, behind bufferization.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_BUFFERROOTS_H
#define PIPESCHED_LIB_CONVERSION_BUFFERROOTS_H

#include "mlir/IR/Value.h"

namespace pipesched {

/// The allocation, global or argument of a function that a memref is a part or
/// a reshape of; null where that is not known.
mlir::Value bufferRootOf(mlir::Value memref);

/// Whether two roots, of which each may be null, could have the same memory.
/// Arguments do, unless one of them is marked `llvm.noalias`.
bool mayOverlap(mlir::Value root, mlir::Value other);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_BUFFERROOTS_H

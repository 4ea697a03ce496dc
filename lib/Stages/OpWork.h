//===- OpWork.h - FLOPs and bytes of one op ---------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What ops without control flow do in one run.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_OPWORK_H
#define PIPESCHED_LIB_STAGES_OPWORK_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Support/CheckedInt.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace pipesched {

/// Work before it is known to fit into 64 bits.
struct CountedWork {
  Engine engine = Engine::Vector;
  CheckedInt flops, bytes;
};

/// Whether the op multiplies and adds over common dimensions of its inputs, of
/// which one has a dimension of its own: a product of matrices, of a matrix and
/// a vector, or a convolution. A dot product of vectors is none.
bool isContraction(mlir::linalg::LinalgOp op);

/// The FLOPs of `op` for one element if it computes one result element by
/// element: an op of arith or math, a cast, a constant. Nothing for others.
std::optional<int64_t> elementwiseFlops(mlir::Operation *op);

/// The work of an op of linalg, tensor, arith or math, or of one that touches
/// neither floats nor tensors. Nothing if the op is none of these, or if its
/// region holds such an op, which `unknown` is set to. All types are static.
std::optional<CountedWork> workOf(mlir::Operation *op,
                                  mlir::Operation *&unknown);

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_OPWORK_H

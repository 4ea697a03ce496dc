//===- ProductSums.h - What is added to a product ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bias or a residual that is added to a product of matrices in an op of its
// own.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CONVERSION_PRODUCTSUMS_H
#define PIPESCHED_LIB_CONVERSION_PRODUCTSUMS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"

namespace pipesched {

/// An op that adds another memref to a product, and computes nothing else.
struct ProductSum {
  mlir::linalg::LinalgOp op;
  mlir::Value addend;
  mlir::AffineMap map; ///< by which the loops of the product read the addend
  mlir::Value result;
  bool isInPlace; ///< the result is the addend
  bool atProduct; ///< may be computed where the product is, else at the sum
};

/// Whether an op could read or write memory of `root`, which may be null. Its
/// memrefs are operands of it or of ops inside.
bool mayAccess(mlir::Operation *op, mlir::Value root);

/// The sum behind a product of memrefs that begins with the zeros of `fill`,
/// which may be null, if one call may compute both: nothing else reads
/// the product, and nothing in between touches what is moved over it.
std::optional<ProductSum>
findProductSum(mlir::linalg::LinalgOp product,
               const mlir::linalg::ContractionDimensions &dims,
               mlir::linalg::FillOp fill);

} // namespace pipesched

#endif // PIPESCHED_LIB_CONVERSION_PRODUCTSUMS_H

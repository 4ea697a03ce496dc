//===- CostOwners.h - Ops that costs attach to ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops to which models and profiles are attached: schedules and programs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TRANSFORMS_ATTACH_COSTOWNERS_H
#define PIPESCHED_LIB_TRANSFORMS_ATTACH_COSTOWNERS_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/IR/BuiltinOps.h"

namespace pipesched::pipe {

/// The schedules and programs of a module, or only the one called `name`.
/// Errors: the module has none; none has that name, with the closest name.
mlir::FailureOr<llvm::SmallVector<PlacementOwnerOpInterface>>
selectCostOwners(mlir::ModuleOp module, llvm::StringRef name);

/// Returns the model with these facts, under any name. If the module has none,
/// creates one before `owner`, with a name that needs no quotes.
ModelOp getOrCreateModel(mlir::ModuleOp module, mlir::SymbolTable &symbols,
                         mlir::Operation *owner, ModelFacts facts);

void setModel(PlacementOwnerOpInterface owner, llvm::StringRef symbol);
void setProfile(PlacementOwnerOpInterface owner, ProfileAttr profile);

/// Which of two mutually exclusive options is given.
enum class OneOf { First, Second };

/// Returns which of the two is given. Errors: neither or both are given.
mlir::FailureOr<OneOf> expectOne(mlir::ModuleOp module, llvm::StringRef pass,
                                 llvm::StringRef firstName,
                                 llvm::StringRef first,
                                 llvm::StringRef secondName,
                                 llvm::StringRef second);

} // namespace pipesched::pipe

#endif // PIPESCHED_LIB_TRANSFORMS_ATTACH_COSTOWNERS_H

//===- TorchCsv.h - PyTorch's CSV to and from ops ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls the reader and writer of lib/Exchange and emits their errors as
// diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TORCHCSV_H
#define PIPESCHED_TARGET_TORCHCSV_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace pipesched {

/// Imports a module with one schedule. Its name is the name of the file without
/// folder and extension. Returns null after an error. Errors and warnings are
/// emitted at their line and column of `file`.
mlir::OwningOpRef<mlir::ModuleOp> importTorchCsv(mlir::MLIRContext *context,
                                                 llvm::StringRef text,
                                                 llvm::StringRef file,
                                                 const TorchCsvImport &options);

/// Exports a schedule as CSV. Errors, emitted at the schedule or its rows
/// before anything is written: no rows; a table that `verifyTable` rejects,
/// that the format cannot express, or that PyTorch would compute wrongly.
mlir::LogicalResult exportTorchCsv(pipe::ScheduleOp schedule,
                                   TorchCsvFormat format,
                                   llvm::raw_ostream &os);

} // namespace pipesched

#endif // PIPESCHED_TARGET_TORCHCSV_H

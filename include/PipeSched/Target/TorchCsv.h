//===- TorchCsv.h - PyTorch's CSV to and from ops ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reader and writer of lib/Exchange with diagnostics for their errors.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TORCHCSV_H
#define PIPESCHED_TARGET_TORCHCSV_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace pipesched {

/// A module with one schedule, called as the file without folder and ending.
/// Null after an error, which is emitted at its line and column of `file`.
mlir::OwningOpRef<mlir::ModuleOp> importTorchCsv(mlir::MLIRContext *context,
                                                 llvm::StringRef text,
                                                 llvm::StringRef file,
                                                 const TorchCsvImport &options);

/// Errors, emitted at the schedule or its rows, with nothing written: no rows;
/// a schedule that `verifyTable` refuses; what the format cannot express. A
/// warning says where PyTorch would not accept what is written.
mlir::LogicalResult exportTorchCsv(pipe::ScheduleOp schedule,
                                   TorchCsvFormat format,
                                   llvm::raw_ostream &os);

} // namespace pipesched

#endif // PIPESCHED_TARGET_TORCHCSV_H

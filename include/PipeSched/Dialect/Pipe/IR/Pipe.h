//===- Pipe.h - The pipe dialect --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dialect, attributes and ops of pipe, and the placement that the paths of a
// schedule define.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPE_H
#define PIPESCHED_DIALECT_PIPE_IR_PIPE_H

#include "PipeSched/Dialect/Pipe/IR/Cells.h"
#include "PipeSched/Dialect/Pipe/IR/StageRoles.h"
#include "PipeSched/Dialect/Pipe/IR/Syntax.h"
#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Table/Table.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/DataLayoutInterfaces.h"

namespace pipesched {
struct SystemFacts; // System.h
} // namespace pipesched

#include "PipeSched/Dialect/Pipe/IR/PipeDialect.h.inc"
#include "PipeSched/Dialect/Pipe/IR/PipeEnums.h.inc"
#include "PipeSched/Dialect/Pipe/IR/PipeInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "PipeSched/Dialect/Pipe/IR/PipeAttrs.h.inc"

#define GET_OP_CLASSES
#include "PipeSched/Dialect/Pipe/IR/PipeOps.h.inc"

namespace pipesched::pipe {

/// Returns the placement that the pipe.path, pipe.node and pipe.edge ops in the
/// body of `owner` define. Errors are emitted at the path or at `owner`: no
/// path; a worker or microbatch that does not exist; a microbatch on no path or
/// on several; the errors of nodes and edges.
mlir::FailureOr<Placement> loadPlacement(PlacementOwnerOpInterface owner);

/// Whether an op of a schedule or program comes before its rows: a path, or a
/// clause that names functions.
bool isHeaderOp(mlir::Operation &op);

/// Verifies that each stage has at most one clause in the body of `owner`, and
/// that there is at most one clause each for data, target and loss.
mlir::LogicalResult verifyClauses(PlacementOwnerOpInterface owner);

/// Verifies that options occur only with a family, and are not empty. The
/// family need not be one of ours, because other generators may use their own
/// names.
mlir::LogicalResult verifyFamilyClause(mlir::Operation *op,
                                       mlir::StringAttr family,
                                       mlir::DictionaryAttr options);

/// Returns the name of a cell of `op`, which is in a schedule or a program. The
/// name includes the slice if microbatches have several slices.
CellName nameCell(mlir::Operation *op, Cell cell);

/// Like emitOpError, but without printing the op, whose rows may be long.
mlir::InFlightDiagnostic emitTableError(mlir::Operation *op);

} // namespace pipesched::pipe

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPE_H

//===- Syntax.h - Syntax that pipe and exec share ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradient rule and family clause, which pipe.schedule and exec.program share,
// and numbers that only newer bytecode has. Cells.h has the syntax of cells.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_SYNTAX_H
#define PIPESCHED_DIALECT_PIPE_IR_SYNTAX_H

#include "PipeSched/Dialect/Pipe/IR/Cells.h"
#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched::pipe {

/// `I` or `W`. As an attribute it is that letter as a string, in bytecode the
/// value of the enum.
mlir::ParseResult parseGradientAfter(mlir::AsmParser &parser,
                                     GradientAfter &gradientAfter);
mlir::OptionalParseResult
parseOptionalGradientAfter(mlir::AsmParser &parser,
                           GradientAfter &gradientAfter);
void printGradientAfter(mlir::AsmPrinter &printer, GradientAfter gradientAfter);
inline void printGradientAfter(mlir::AsmPrinter &printer, mlir::Operation *,
                               GradientAfter gradientAfter) {
  printGradientAfter(printer, gradientAfter);
}
mlir::Attribute gradientAfterToAttribute(mlir::MLIRContext *context,
                                         GradientAfter gradientAfter);
mlir::LogicalResult gradientAfterFromAttribute(GradientAfter &gradientAfter,
                                               mlir::Attribute attribute,
                                               EmitErrorFn emitError);
void writeGradientAfter(mlir::DialectBytecodeWriter &writer,
                        GradientAfter gradientAfter);
mlir::LogicalResult readGradientAfter(mlir::DialectBytecodeReader &reader,
                                      GradientAfter &gradientAfter);

/// Reads the slices of a schedule from bytecode; files before
/// BytecodeVersion::kSlices have 1.
mlir::LogicalResult readSlices(mlir::DialectBytecodeReader &reader,
                               int64_t &slices);
/// Parses the region of an op whose microbatches have `slices` slices, so that
/// its cells name their slices. Errors: fewer than 1 slice.
mlir::ParseResult parseSlicedRegion(mlir::OpAsmParser &parser,
                                    llvm::StringRef opName,
                                    mlir::Region &region, int64_t slices);
/// Reads the number of tokens that a token attends to in a kernel; files before
/// BytecodeVersion::kSeen have 0.
mlir::LogicalResult readSeen(mlir::DialectBytecodeReader &reader,
                             int64_t &seen);
/// Reads the number of entries of the vocabulary of a model; files before
/// BytecodeVersion::kVocabulary have 0.
mlir::LogicalResult readVocabulary(mlir::DialectBytecodeReader &reader,
                                   int64_t &vocabulary);

/// The work of a kernel in S or T, and the bytes of a shard: as text, as an
/// array attribute, and in bytecode since BytecodeVersion::kShards.
mlir::OptionalParseResult parseOptionalShard(mlir::AsmParser &parser,
                                             Work &work);
mlir::OptionalParseResult parseOptionalShard(mlir::AsmParser &parser,
                                             ShardBytes &bytes);
mlir::ParseResult parseShard(mlir::AsmParser &parser, Work &work);
mlir::ParseResult parseShard(mlir::AsmParser &parser, ShardBytes &bytes);
void printShard(mlir::AsmPrinter &printer, const Work &work);
void printShard(mlir::AsmPrinter &printer, const ShardBytes &bytes);
mlir::Attribute shardToAttribute(mlir::MLIRContext *context, const Work &work);
mlir::Attribute shardToAttribute(mlir::MLIRContext *context,
                                 const ShardBytes &bytes);
mlir::LogicalResult shardFromAttribute(Work &work, mlir::Attribute attribute,
                                       EmitErrorFn emitError);
mlir::LogicalResult shardFromAttribute(ShardBytes &bytes,
                                       mlir::Attribute attribute,
                                       EmitErrorFn emitError);
llvm::hash_code hashShard(const Work &work);
llvm::hash_code hashShard(const ShardBytes &bytes);
void writeShard(mlir::DialectBytecodeWriter &writer, const Work &work);
void writeShard(mlir::DialectBytecodeWriter &writer, const ShardBytes &bytes);
mlir::LogicalResult readShard(mlir::DialectBytecodeReader &reader, Work &work);
mlir::LogicalResult readShard(mlir::DialectBytecodeReader &reader,
                              ShardBytes &bytes);

/// The stages of a path that do not train: as text, as an attribute, and in
/// bytecode since BytecodeVersion::kPathBackward.
mlir::ParseResult parsePathBackward(mlir::AsmParser &parser,
                                    PathBackward &backward);
mlir::OptionalParseResult parseOptionalPathBackward(mlir::AsmParser &parser,
                                                    PathBackward &backward);
void printPathBackward(mlir::AsmPrinter &printer, const PathBackward &backward);
mlir::Attribute pathBackwardToAttribute(mlir::MLIRContext *context,
                                        const PathBackward &backward);
mlir::LogicalResult pathBackwardFromAttribute(PathBackward &backward,
                                              mlir::Attribute attribute,
                                              EmitErrorFn emitError);
llvm::hash_code hashPathBackward(const PathBackward &backward);
void writePathBackward(mlir::DialectBytecodeWriter &writer,
                       const PathBackward &backward);
mlir::LogicalResult readPathBackward(mlir::DialectBytecodeReader &reader,
                                     PathBackward &backward);

/// Parses `family "interleaved-1f1b" {group = 4}` if present. The region that
/// may follow also starts with a brace. A brace opens options if it is followed
/// by a key and one of `=`, `,`, `}`.
mlir::OptionalParseResult parseFamily(mlir::OpAsmParser &parser,
                                      mlir::StringAttr &family,
                                      mlir::DictionaryAttr &options);
void printFamily(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                 mlir::StringAttr family, mlir::DictionaryAttr options);

} // namespace pipesched::pipe

#endif // PIPESCHED_DIALECT_PIPE_IR_SYNTAX_H

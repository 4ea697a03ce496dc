//===- BytecodeVersion.h - Versions of bytecode -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The version that both dialects write into bytecode. Files without a version
// are older than the first version and count as version 0.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_BYTECODEVERSION_H
#define PIPESCHED_DIALECT_PIPE_IR_BYTECODEVERSION_H

#include "mlir/Bytecode/BytecodeImplementation.h"

namespace pipesched {

/// The versions:
///
///   0   cells as PhaseTraits::code, stage, overlap and number (toStored)
///   1   the same, and the version is written
///   2   schedules with their number of slices
///   3   kernels with the number of tokens that a token attends to
///   4   programs with their number of slices
///   5   models with the entries of their vocabulary
///   6   blocks and kernels with the shard of a vocabulary
///   7   paths with the stages that do not train
struct BytecodeVersion : mlir::DialectVersion {
  static constexpr uint64_t kCurrent = 7;
  static constexpr uint64_t kSlices = 2;
  static constexpr uint64_t kSeen = 3;
  static constexpr uint64_t kProgramSlices = 4;
  static constexpr uint64_t kVocabulary = 5;
  static constexpr uint64_t kShards = 6;
  static constexpr uint64_t kPathBackward = 7;

  explicit BytecodeVersion(uint64_t number) : number(number) {}
  uint64_t number;
};

/// Reads a number of an op of a dialect. Files have it from version `since` on;
/// in older files its value is `before`.
template <typename DialectT>
mlir::LogicalResult readSince(mlir::DialectBytecodeReader &reader,
                              uint64_t since, int64_t before, int64_t &number) {
  mlir::FailureOr<const mlir::DialectVersion *> version =
      reader.getDialectVersion<DialectT>();
  if (mlir::succeeded(version) &&
      static_cast<const BytecodeVersion *>(*version)->number >= since)
    return reader.readSignedVarInt(number);
  number = before;
  return mlir::success();
}

/// Writes and reads the version. The properties of ops write everything else,
/// and attributes are written as text.
struct VersionedBytecode : mlir::BytecodeDialectInterface {
  explicit VersionedBytecode(mlir::Dialect *dialect)
      : BytecodeDialectInterface(dialect) {}

  void writeVersion(mlir::DialectBytecodeWriter &writer) const final;
  /// Errors: a version that is above kCurrent.
  std::unique_ptr<mlir::DialectVersion>
  readVersion(mlir::DialectBytecodeReader &reader) const final;
};

} // namespace pipesched

#endif // PIPESCHED_DIALECT_PIPE_IR_BYTECODEVERSION_H

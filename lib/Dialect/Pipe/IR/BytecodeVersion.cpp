//===- BytecodeVersion.cpp - Versions of bytecode -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR requests the version of each dialect when it starts to write a file.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "PipeSched/Dialect/Pipe/IR/Cells.h"
#include "mlir/Bytecode/Encoding.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace pipesched;

void VersionedBytecode::writeVersion(DialectBytecodeWriter &writer) const {
  pipe::dropWrittenCells();
  // The writer of versions cannot return an error: the file is written without
  // properties.
  if (writer.getBytecodeVersion() < bytecode::kNativePropertiesEncoding)
    emitError(UnknownLoc::get(getContext()))
        << "version " << writer.getBytecodeVersion()
        << " of bytecode has no place for what dialect '"
        << getDialect()->getNamespace() << "' writes; expected at least "
        << int(bytecode::kNativePropertiesEncoding);
  writer.writeVarInt(BytecodeVersion::kCurrent);
}

std::unique_ptr<DialectVersion>
VersionedBytecode::readVersion(DialectBytecodeReader &reader) const {
  uint64_t number = 0;
  if (failed(reader.readVarInt(number)))
    return nullptr;
  if (number <= BytecodeVersion::kCurrent)
    return std::make_unique<BytecodeVersion>(number);
  reader.emitError() << "has version " << number << " of dialect '"
                     << getDialect()->getNamespace()
                     << "'; this PipeSched reads versions up to "
                     << BytecodeVersion::kCurrent;
  return nullptr;
}

//===- PipeProperties.td - Cells and gradient rule ---------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties that pipe and exec ops share. Cells are flat arrays in the op, not
// attributes, so they can change in place and are freed with the op
// (docs/Dialects/RationalePipe.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEPROPERTIES_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEPROPERTIES_TD

include "mlir/IR/Properties.td"

/// One cell, `2F0`. As an attribute: its 64 bits as an i64.
def Pipe_CellProp : Property<"::pipesched::Cell", "cell"> {
  let convertToAttribute = [{
    return ::pipesched::pipe::cellToAttribute($_ctxt, $_storage);
  }];
  let convertFromAttribute = [{
    return ::pipesched::pipe::cellFromAttribute($_storage, $_attr, $_diag);
  }];
  let hashProperty = "::llvm::hash_value($_storage.getRaw())";
  let parser = [{
    if (::mlir::failed(::pipesched::pipe::parseCell($_parser, $_storage)))
      return ::mlir::failure();
  }];
  let printer = "::pipesched::pipe::printCell($_printer, $_storage)";
  let writeToMlirBytecode = [{
    ::pipesched::pipe::writeCell($_writer, $_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(::pipesched::pipe::readCell($_reader, $_storage)))
      return ::mlir::failure();
  }];
}

/// A row of cells, `[0F0 _2 0F2+1B0]`. As an attribute: an i64 array of their
/// bits; in bytecode: a blob of 8 bytes per cell, little endian.
def Pipe_CellsProp
    : Property<"::std::vector<::pipesched::Cell>", "row of cells",
               "::llvm::ArrayRef<::pipesched::Cell>"> {
  let convertFromStorage = "::llvm::ArrayRef<::pipesched::Cell>($_storage)";
  let assignToStorage = "$_storage.assign($_value.begin(), $_value.end())";
  let convertToAttribute = [{
    return ::pipesched::pipe::cellsToAttribute($_ctxt, $_storage);
  }];
  let convertFromAttribute = [{
    return ::pipesched::pipe::cellsFromAttribute($_storage, $_attr, $_diag);
  }];
  let hashProperty = "::pipesched::pipe::hashCells($_storage)";
  let parser = [{
    if (::mlir::failed(::pipesched::pipe::parseCells($_parser, $_storage)))
      return ::mlir::failure();
  }];
  let printer = "::pipesched::pipe::printCells($_printer, $_storage)";
  let writeToMlirBytecode = [{
    ::pipesched::pipe::writeCells($_writer, $_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(::pipesched::pipe::readCells($_reader, $_storage)))
      return ::mlir::failure();
  }];
}

/// The cell of a split backward that sends the gradient to the previous stage,
/// `I` (the default) or `W`. As an attribute: that letter as a string.
def Pipe_GradientAfterValueProp
    : Property<"::pipesched::GradientAfter", "gradient rule"> {
  let convertToAttribute = [{
    return ::pipesched::pipe::gradientAfterToAttribute($_ctxt, $_storage);
  }];
  let convertFromAttribute = [{
    return ::pipesched::pipe::gradientAfterFromAttribute($_storage, $_attr,
                                                         $_diag);
  }];
  let hashProperty = "::llvm::hash_value(static_cast<uint8_t>($_storage))";
  let parser = [{
    if (::mlir::failed(
            ::pipesched::pipe::parseGradientAfter($_parser, $_storage)))
      return ::mlir::failure();
  }];
  let optionalParser = [{
    return ::pipesched::pipe::parseOptionalGradientAfter($_parser, $_storage);
  }];
  let printer = "::pipesched::pipe::printGradientAfter($_printer, $_storage)";
  let writeToMlirBytecode = [{
    ::pipesched::pipe::writeGradientAfter($_writer, $_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(
            ::pipesched::pipe::readGradientAfter($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Pipe_GradientAfterProp
    : DefaultValuedProp<Pipe_GradientAfterValueProp,
                        "::pipesched::GradientAfter::InputGrad">;

/// The number of slices of a microbatch, 1 (the default) or more. Bytecode has
/// it from version 2 on.
def Pipe_SlicesValueProp : IntProp<"int64_t"> {
  let summary = "slices of a microbatch";
  let writeToMlirBytecode = [{
    $_writer.writeSignedVarInt($_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(::pipesched::pipe::readSlices($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Pipe_SlicesProp : DefaultValuedProp<Pipe_SlicesValueProp, "1">;

/// The stages of a path that do not train: `none`, `frozen [0, 1]`; by default
/// all train. As an attribute: an i64 array of the frozen stages, or the string
/// "none". Bytecode has it from version 7 on.
def Pipe_PathBackwardValueProp
    : Property<"::pipesched::PathBackward", "stages that do not train",
               "const ::pipesched::PathBackward &"> {
  let convertToAttribute = [{
    return ::pipesched::pipe::pathBackwardToAttribute($_ctxt, $_storage);
  }];
  let convertFromAttribute = [{
    return ::pipesched::pipe::pathBackwardFromAttribute($_storage, $_attr,
                                                        $_diag);
  }];
  let hashProperty = "::pipesched::pipe::hashPathBackward($_storage)";
  let parser = [{
    if (::mlir::failed(
            ::pipesched::pipe::parsePathBackward($_parser, $_storage)))
      return ::mlir::failure();
  }];
  let optionalParser = [{
    return ::pipesched::pipe::parseOptionalPathBackward($_parser, $_storage);
  }];
  let printer = "::pipesched::pipe::printPathBackward($_printer, $_storage)";
  let writeToMlirBytecode = [{
    ::pipesched::pipe::writePathBackward($_writer, $_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(
            ::pipesched::pipe::readPathBackward($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Pipe_PathBackwardProp
    : DefaultValuedProp<Pipe_PathBackwardValueProp,
                        "::pipesched::PathBackward()">;

/// The number of tokens that a token attends to in a kernel; 0 (the default) if
/// the work of the kernel grows only with the number of tokens. Bytecode has it
/// from version 3 on.
def Pipe_SeenValueProp : IntProp<"int64_t"> {
  let summary = "tokens that a token sees";
  let writeToMlirBytecode = [{
    $_writer.writeSignedVarInt($_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(::pipesched::pipe::readSeen($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Pipe_SeenProp : DefaultValuedProp<Pipe_SeenValueProp, "0">;

/// The number of entries of the vocabulary of a model; 0 (the default) if
/// unknown. Bytecode has it from version 5 on.
def Pipe_VocabularyValueProp : IntProp<"int64_t"> {
  let summary = "entries of a vocabulary";
  let writeToMlirBytecode = [{
    $_writer.writeSignedVarInt($_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(::pipesched::pipe::readVocabulary($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Pipe_VocabularyProp : DefaultValuedProp<Pipe_VocabularyValueProp, "0">;

/// Numbers of a shard as one property. As an attribute: an i64 array. Bytecode
/// has them from version 6 on.
class Pipe_ShardValueProp<string type, string summary>
    : Property<type, summary> {
  let convertToAttribute = [{
    return ::pipesched::pipe::shardToAttribute($_ctxt, $_storage);
  }];
  let convertFromAttribute = [{
    return ::pipesched::pipe::shardFromAttribute($_storage, $_attr, $_diag);
  }];
  let hashProperty = "::pipesched::pipe::hashShard($_storage)";
  let parser = [{
    if (::mlir::failed(::pipesched::pipe::parseShard($_parser, $_storage)))
      return ::mlir::failure();
  }];
  let optionalParser = [{
    return ::pipesched::pipe::parseOptionalShard($_parser, $_storage);
  }];
  let printer = "::pipesched::pipe::printShard($_printer, $_storage)";
  let writeToMlirBytecode = [{
    ::pipesched::pipe::writeShard($_writer, $_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(::pipesched::pipe::readShard($_reader, $_storage)))
      return ::mlir::failure();
  }];
}

/// The work of a kernel in S or T, `<5 flops, 80 bytes>`; none by default.
def Pipe_ShardWorkProp
    : DefaultValuedProp<Pipe_ShardValueProp<"::pipesched::Work",
                                            "work of a shard">,
                        "::pipesched::Work()">;

/// The bytes that the shard of a stage keeps and sends, `[40, 8, 16, 8]`; none
/// by default.
def Pipe_ShardBytesProp
    : DefaultValuedProp<Pipe_ShardValueProp<"::pipesched::ShardBytes",
                                            "bytes of a shard">,
                        "::pipesched::ShardBytes()">;

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEPROPERTIES_TD

//===- GeneratorPasses.cpp - Passes around generators ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the options of a family say in the pass and in the IR.
//
//===----------------------------------------------------------------------===//

#include "GeneratorPasses.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static void addNumber(FamilyAttributes &written, Builder builder,
                      StringRef name, std::optional<int64_t> value) {
  if (value)
    written.push_back(
        builder.getNamedAttr(name, builder.getI64IntegerAttr(*value)));
}

FamilyAttributes pipe::describe(Builder builder,
                                const GeneratorOptions &options) {
  FamilyAttributes written;
  if (options.splitBackward)
    written.push_back(
        builder.getNamedAttr("split_backward", builder.getBoolAttr(true)));
  return written;
}

FamilyAttributes pipe::describe(Builder builder,
                                const InterleavedOptions &options) {
  FamilyAttributes written =
      describe(builder, static_cast<const GeneratorOptions &>(options));
  addNumber(written, builder, "group", options.group);
  return written;
}

FamilyAttributes pipe::describe(Builder builder,
                                const ChimeraOptions &options) {
  FamilyAttributes written =
      describe(builder, static_cast<const GeneratorOptions &>(options));
  StringRef name = nameOf(options.construction);
  if (options.construction != ChimeraConstruction::Concat)
    written.push_back(
        builder.getNamedAttr("construction", builder.getStringAttr(name)));
  return written;
}

FamilyAttributes pipe::describe(Builder builder, const ZBAutoOptions &options) {
  FamilyAttributes written;
  addNumber(written, builder, "memory", options.memory);
  return written;
}

FamilyAttributes pipe::describe(Builder builder, const GreedyOptions &options) {
  FamilyAttributes written;
  if (!options.splitBackward)
    written.push_back(
        builder.getNamedAttr("split_backward", builder.getBoolAttr(false)));
  return written;
}

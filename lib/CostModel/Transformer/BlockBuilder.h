//===- BlockBuilder.h - Kernels and tensors of one block --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collects the kernels of a block and the tensors that it keeps, in checked
// arithmetic; the first overflow names its kernel or tensor.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_TRANSFORMER_BLOCKBUILDER_H
#define PIPESCHED_LIB_COSTMODEL_TRANSFORMER_BLOCKBUILDER_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Work before it is known to fit.
struct CheckedWork {
  CheckedInt flops = 0, bytes = 0;
};

/// The last phase of a split backward that reads a saved tensor.
enum class LastUse { InputGrad, WeightGrad };

/// Whether a kernel or tensor belongs to what selective recompute runs again.
enum class Part { Core, Rest };

/// Whether the accelerators of a worker share a kernel or tensor, or each has
/// all of it.
enum class Share { Divided, Whole };

class BlockBuilder {
public:
  BlockBuilder(llvm::StringRef name, BlockPosition position, int64_t count) {
    block.name = name.str();
    block.position = position;
    block.count = count;
  }

  /// A kernel; phases in which it does not run have no work.
  void kernel(llvm::StringRef name, Engine engine, CheckedWork forward,
              CheckedWork inputGrad, CheckedWork weightGrad = {},
              Part part = Part::Rest, Share share = Share::Divided);

  /// A tensor that F keeps.
  void saves(llvm::StringRef name, CheckedInt bytes, LastUse lastUse,
             Part part = Part::Rest, Share share = Share::Divided);
  /// The block's input, which a full recompute keeps; W reads it too.
  void savesInput(llvm::StringRef name, CheckedInt bytes, Share share);
  /// The gradient of an output, which I makes and leaves for W.
  void leavesGradient(llvm::StringRef name, CheckedInt bytes,
                      Share share = Share::Divided);
  /// `active` of them are those that one token goes through.
  void parameters(llvm::StringRef name, CheckedInt count, CheckedInt active);
  /// Parameters that are another block's too.
  void tiedParameters(llvm::StringRef name, CheckedInt count);

  /// Nothing of this block is recomputed: all its tensors stay.
  void keepAll();

  /// The block, or what overflowed.
  llvm::Expected<BlockFacts> finish();

private:
  void check(llvm::StringRef what, llvm::StringRef name, CheckedInt value);

  BlockFacts block;
  CheckedInt parameterCount, activeCount, tiedCount;
  CheckedInt activations, core, input, weightGrad;
  CheckedInt wholeActivations, wholeInput, wholeWeightGrad;
  std::vector<bool> isCore; ///< by kernel
  bool keepsAll = false;
  std::string overflow; ///< the first, empty for none
};

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_TRANSFORMER_BLOCKBUILDER_H

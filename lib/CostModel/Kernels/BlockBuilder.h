//===- BlockBuilder.h - Kernels and tensors of one block --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collects the kernels of a block and the tensors that it keeps, in checked
// arithmetic; an error names the first kernel or tensor that overflows.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKBUILDER_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKBUILDER_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Work that may have overflowed.
struct CheckedWork {
  CheckedInt flops = 0, bytes = 0;
};

/// The last phase of a split backward that reads a saved tensor.
enum class LastUse { InputGrad, WeightGrad };

/// Whether a kernel or tensor belongs to the attention core, which selective
/// recompute runs again.
enum class Part { Core, Rest };

/// Whether the accelerators of a worker divide a kernel or tensor, or each has
/// all of it; or they divide a kernel as they divide parameters.
enum class Share { Divided, Whole, AsParameters };

class BlockBuilder {
public:
  BlockBuilder(llvm::StringRef name, BlockPosition position, int64_t count) {
    block.name = name.str();
    block.position = position;
    block.count = count;
  }

  /// Says of the last kernel, and of its twin if it runs again, what few
  /// kernels have.
  void ofLast(llvm::function_ref<void(Kernel &)> say) {
    for (Kernel &kernel :
         llvm::MutableArrayRef(block.kernels).take_back(hasTwin ? 2 : 1))
      say(kernel);
  }

  /// Adds a kernel; its work is zero in phases in which it does not run.
  /// `weightBytes` of its bytes are weights.
  void kernel(llvm::StringRef name, Engine engine, CheckedWork forward,
              CheckedWork inputGrad, CheckedWork weightGrad = {},
              Part part = Part::Rest, Share share = Share::Divided,
              CheckedInt weightBytes = 0);

  /// Adds a kernel of the attention core that has rates of its own.
  void attention(llvm::StringRef name, const AttentionShape &shape,
                 CheckedWork forward, CheckedWork inputGrad);

  /// Adds a tensor that F keeps.
  void saves(llvm::StringRef name, CheckedInt bytes, LastUse lastUse,
             Part part = Part::Rest, Share share = Share::Divided);
  /// Adds the block's input, which full recompute keeps and W reads too.
  void savesInput(llvm::StringRef name, CheckedInt bytes, Share share);
  /// Adds the gradient of an output, which I computes and leaves for W.
  void leavesGradient(llvm::StringRef name, CheckedInt bytes,
                      Share share = Share::Divided);
  /// Adds parameters; one token uses `active` of them.
  void parameters(llvm::StringRef name, CheckedInt count, CheckedInt active);
  /// Begins or ends the work on rows of experts: kernels, tensors, gradients
  /// and parameters in between are those of experts.
  void route(bool begins) { isRouting = begins; }
  /// Begins the attention core, in which a token sees at most so many others,
  /// or ends it with 0.
  void sees(CheckedInt tokens) { seen = tokens.get(); }
  /// Begins or ends a part that the backward runs again: each kernel has a twin
  /// `..._again` with the work of its forward in I, and of the tensors none is
  /// kept. I leaves those that W needs.
  void again(bool begins) { isAgain = begins; }
  /// Says what the experts are whose rows the block works on.
  void experts(const ExpertFacts &facts) { block.experts = facts; }

  /// Adds parameters that another block owns.
  void tiedParameters(llvm::StringRef name, CheckedInt count);

  /// Says that full recompute keeps all tensors of this block.
  void keepAll();

  /// Returns the block. Errors: the first overflow.
  llvm::Expected<BlockFacts> finish();

private:
  void repeat(Kernel twin);
  void check(llvm::StringRef what, llvm::StringRef name, CheckedInt value);

  BlockFacts block;
  CheckedInt parameterCount, activeCount, tiedCount;
  CheckedInt activations, core, input, weightGrad;
  CheckedInt wholeActivations, wholeInput, wholeWeightGrad;
  /// Of experts.
  CheckedInt routedParameters, routedActivations, routedWeightGrad;
  bool isRouting = false, isAgain = false;
  bool hasTwin = false; ///< the last kernel is the twin of the one before
  int64_t seen = 0;
  std::vector<bool> isCore; ///< by kernel
  bool keepsAll = false;
  std::string overflow; ///< message of the first overflow; empty: none
};

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKBUILDER_H

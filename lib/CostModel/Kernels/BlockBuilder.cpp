//===- BlockBuilder.cpp - Kernels and tensors of one block ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums the kernels and tensors that the expansion of a block adds.
//
//===----------------------------------------------------------------------===//

#include "BlockExpander.h"

using namespace pipesched;

void BlockBuilder::check(llvm::StringRef what, llvm::StringRef name,
                         CheckedInt value) {
  if (!value.isValid() && overflow.empty())
    overflow = (what + " of '" + name + "' in block '" + block.name +
                "' are over 2^63 - 1")
                   .str();
}

void BlockBuilder::kernel(llvm::StringRef name, Engine engine,
                          CheckedWork forward, CheckedWork inputGrad,
                          CheckedWork weightGrad, Part part, Share share,
                          CheckedInt weightBytes) {
  Kernel kernel;
  kernel.name = name.str();
  kernel.engine = engine;
  auto convert = [&](CheckedWork work) {
    check("the FLOPs", name, work.flops);
    check("the bytes", name, work.bytes);
    return Work{work.flops.get(), work.bytes.get()};
  };
  kernel.forward = convert(forward);
  kernel.inputGrad = convert(inputGrad);
  kernel.weightGrad = convert(weightGrad);
  kernel.whole = share == Share::Whole;
  kernel.onParameters = share == Share::AsParameters;
  kernel.routed = isRouting;
  kernel.seen = seen;
  if (isRouting)
    kernel.weightBytes = weightBytes.get();
  block.kernels.push_back(std::move(kernel));
  isCore.push_back(part == Part::Core);
  hasTwin = (isAgain || isLayerAgain) && !block.kernels.back().forward.isZero();
  if (hasTwin)
    repeat(block.kernels.back());
}

void BlockBuilder::repeat(Kernel twin) {
  twin.name += "_again";
  twin.inputGrad = std::exchange(twin.forward, Work());
  twin.weightGrad = Work();
  block.kernels.push_back(std::move(twin));
  isCore.push_back(false);
}

void BlockBuilder::attention(llvm::StringRef name, const AttentionShape &shape,
                             CheckedWork forward, CheckedWork inputGrad) {
  kernel(name, Engine::Attention, forward, inputGrad, {}, Part::Core);
  block.kernels.back().attention = shape;
}

void BlockBuilder::saves(llvm::StringRef name, CheckedInt bytes,
                         LastUse lastUse, Part part, Share share) {
  CheckedInt whole = share == Share::Whole ? bytes : 0;
  if (isAgain || isLayerAgain) {
    if (lastUse == LastUse::WeightGrad)
      leavesGradient(name, bytes, share);
    return;
  }
  activations += bytes;
  wholeActivations += whole;
  if (part == Part::Core)
    core += bytes;
  if (isRouting)
    routedActivations += bytes;
  if (share == Share::Rows)
    wideActivations += bytes;
  if (lastUse == LastUse::WeightGrad) {
    weightGrad += bytes;
    if (isRouting)
      routedWeightGrad += bytes;
    if (share == Share::Rows)
      wideWeightGrad += bytes;
    wholeWeightGrad += whole;
  }
  check("the saved bytes", name, activations + weightGrad);
}

void BlockBuilder::savesInput(llvm::StringRef name, CheckedInt bytes,
                              Share share) {
  saves(name, bytes, LastUse::WeightGrad, Part::Rest, share);
  input += bytes;
  if (share == Share::Whole)
    wholeInput += bytes;
}

void BlockBuilder::leavesGradient(llvm::StringRef name, CheckedInt bytes,
                                  Share share) {
  weightGrad += bytes;
  if (isRouting)
    routedWeightGrad += bytes;
  if (share == Share::Rows)
    wideWeightGrad += bytes;
  if (share == Share::Whole)
    wholeWeightGrad += bytes;
  check("the gradient bytes", name, weightGrad);
}

void BlockBuilder::parameters(llvm::StringRef name, CheckedInt count,
                              CheckedInt active) {
  parameterCount += count;
  if (isRouting)
    routedParameters += count;
  activeCount += active;
  check("the parameters", name, parameterCount + activeCount);
}

void BlockBuilder::tiedParameters(llvm::StringRef name, CheckedInt count) {
  parameters(name, count, count);
  tiedCount += count;
}

void BlockBuilder::keepAll() { keepsAll = true; }

llvm::Expected<BlockFacts> BlockBuilder::finish() {
  if (!overflow.empty())
    return llvm::createStringError(llvm::inconvertibleErrorCode(), overflow);
  for (auto [index, kernel] : llvm::enumerate(block.kernels)) {
    kernel.recomputed = !keepsAll;
    kernel.core = !keepsAll && isCore[index];
  }
  block.parameters = parameterCount.get();
  if (activeCount.get() != parameterCount.get())
    block.activeParameters = activeCount.get();
  block.tiedParameters = tiedCount.get();
  if (block.experts) {
    block.experts->parameters = routedParameters.get();
    block.experts->activationBytes = routedActivations.get();
    block.experts->weightGradBytes = routedWeightGrad.get();
    block.experts->wide = {wideActivations.get(), wideWeightGrad.get()};
  }
  block.activationBytes = activations.get();
  block.weightGradBytes = weightGrad.get();
  block.recomputedBytes = keepsAll ? activations.get() : input.get();
  block.coreBytes = keepsAll ? 0 : core.get();
  block.whole = {wholeActivations.get(), wholeWeightGrad.get(),
                 keepsAll ? wholeActivations.get() : wholeInput.get()};
  return std::move(block);
}

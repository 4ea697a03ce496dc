//===- Passes.h - Passes on schedules ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations, options and registration of the passes in Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PASSES_H
#define PIPESCHED_TRANSFORMS_PASSES_H

#include "PipeSched/Analysis/Graph/TaskGraph.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Evaluation/SlotMeasure.h"
#include "PipeSched/Optimize/Schedule/OptimizeSchedule.h"
#include "PipeSched/Schedule/Edit/Backward.h"
#include "PipeSched/Schedule/Edit/Offload.h"
#include "PipeSched/Schedule/Edit/OptimizerStep.h"
#include "PipeSched/Schedule/Edit/OrderMicrobatches.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Program/ForwardSends.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Stages/StageFusion.h"
#include "PipeSched/Support/EnumOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace pipesched::pipe {

/// The kinds of paths that pipe-place-asymmetric creates.
enum class AsymmetricPaths { Mirrored, Wave };

/// The half of a split backward that sends the gradient (pipe-split-backward).
enum class SplitGradient { Auto, InputGrad, WeightGrad };

} // namespace pipesched::pipe

namespace pipesched {

template <>
struct EnumNames<pipe::AsymmetricPaths> {
  static constexpr EnumName<pipe::AsymmetricPaths> values[] = {
      {pipe::AsymmetricPaths::Mirrored, "mirrored",
       "Pairs of paths that mirror each other"},
      {pipe::AsymmetricPaths::Wave, "wave", "One path, down and up"}};
};

template <>
struct EnumNames<pipe::SplitGradient> {
  static constexpr EnumName<pipe::SplitGradient> values[] = {
      {pipe::SplitGradient::Auto, "auto",
       "W, or as backwards that are split already"},
      {pipe::SplitGradient::InputGrad, enumName(GradientAfter::InputGrad),
       enumMeaning(GradientAfter::InputGrad)},
      {pipe::SplitGradient::WeightGrad, enumName(GradientAfter::WeightGrad),
       enumMeaning(GradientAfter::WeightGrad)}};
};

} // namespace pipesched

namespace pipesched::pipe {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "PipeSched/Transforms/Passes.h.inc"

/// Registers the pass pipe-schedule-<family> of each family (Families.h).
void registerFamilyPasses();

} // namespace pipesched::pipe

#endif // PIPESCHED_TRANSFORMS_PASSES_H

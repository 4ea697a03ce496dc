//===- Passes.h - Passes on schedules ---------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations, options and registration of the passes in Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PASSES_H
#define PIPESCHED_TRANSFORMS_PASSES_H

#include "PipeSched/Analysis/TaskGraph.h"
#include "PipeSched/CostModel/BalanceLayers.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Evaluation/SlotMeasure.h"
#include "PipeSched/Optimize/OptimizeSchedule.h"
#include "PipeSched/Schedule/Backward.h"
#include "PipeSched/Schedule/ForwardSends.h"
#include "PipeSched/Schedule/Generators.h"
#include "PipeSched/Schedule/Lowering.h"
#include "PipeSched/Schedule/Messages.h"
#include "PipeSched/Schedule/Offload.h"
#include "PipeSched/Schedule/OptimizerStep.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace pipesched::pipe {

/// Which paths pipe-place-asymmetric places.
enum class AsymmetricPaths { Mirrored, Wave };

/// Which half of a split backward sends the gradient (pipe-split-backward).
enum class SplitGradient { Auto, InputGrad, WeightGrad };

/// Which kernels a model has (pipe-attach-model).
enum class AttentionKernels { AsDescribed, Unfused, Fused };

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "PipeSched/Transforms/Passes.h.inc"

/// Registers the pass pipe-schedule-<family> of each family (Families.h).
void registerFamilyPasses();

} // namespace pipesched::pipe

#endif // PIPESCHED_TRANSFORMS_PASSES_H

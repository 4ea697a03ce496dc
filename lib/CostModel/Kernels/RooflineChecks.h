//===- RooflineChecks.h - What a roofline needs of its inputs *- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The errors of costRoofline that need no costs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_ROOFLINECHECKS_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_ROOFLINECHECKS_H

#include "PipeSched/Facts/System.h"
#include "PipeSched/Schedule/Kinds/Phase.h"

namespace pipesched {

/// Checks that accelerators of a worker have a link, that ranks divide
/// sequences and experts evenly, and that the system has the rates that the
/// model's kernels need.
llvm::Error checkSystem(const ModelFacts &model, const SystemFacts &system);

/// Checks that blocks have work for the split backwards of a schedule. One that
/// splits some backwards only is not checked.
llvm::Error checkBackwards(const ModelFacts &model, PhaseSet phases);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_ROOFLINECHECKS_H

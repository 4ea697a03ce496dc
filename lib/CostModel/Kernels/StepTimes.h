//===- StepTimes.h - What an optimizer step moves ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// O of parameters of which no kernel says what it runs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_STEPTIMES_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_STEPTIMES_H

#include "PipeSched/Facts/System.h"

namespace pipesched {

/// Time in which the accelerators of a worker move so many bytes of its memory,
/// ps.
double memoryPs(double bytes, const SystemFacts &system);

/// How often O reads or writes weights: it reads them too if they are the
/// master copy, or a part of it.
double weightPassesOfStep(const ModelFacts &model);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_STEPTIMES_H

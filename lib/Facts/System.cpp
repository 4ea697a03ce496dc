//===- System.cpp - Hardware with a training on it ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What degrees divide, which options of a training alone do not say.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/System.h"
#include "PipeSched/Support/Divisors.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;

llvm::Error pipesched::errorOfSystem(llvm::StringRef name, llvm::Error error) {
  return formatError("system '{0}': {1}", name,
                     llvm::toString(std::move(error)));
}

static llvm::Error makeSystemError(const SystemFacts &system,
                                   const llvm::Twine &message) {
  return errorOfSystem(system.name, llvm::createStringError(message));
}

/// Errors: a degree that does not divide `whole`.
static llvm::Error checkDegree(const SystemFacts &system, const char *kind,
                               int64_t degree, int64_t whole,
                               const llvm::Twine &of) {
  if (whole % degree == 0)
    return llvm::Error::success();
  return makeSystemError(system, llvm::Twine(degree) + "-way " + kind +
                                     " parallelism does not divide " + of +
                                     "; the nearest degrees that do are " +
                                     nearestDivisors(whole, degree));
}

llvm::Error pipesched::checkSplit(const SystemFacts &system) {
  if (llvm::Error error = checkRanges(system))
    return errorOfSystem(system.name, std::move(error));
  int64_t accelerators = system.accelerators, peers = system.dataParallel;
  if (llvm::Error error = checkDegree(
          system, "context", system.contextParallel, accelerators,
          "the " + llvm::Twine(accelerators) + " accelerators of a worker"))
    return error;
  if (system.expertParallel == 1)
    return llvm::Error::success();
  int64_t ranks;
  if (llvm::MulOverflow(accelerators, peers, ranks))
    return makeSystemError(system,
                           "the accelerators of a stage are over 2^63 - 1");
  return checkDegree(system, "expert", system.expertParallel, ranks,
                     "the " + llvm::Twine(ranks) +
                         " accelerators of a stage in all pipelines");
}

llvm::Expected<SystemFacts> pipesched::deploy(HardwareFacts hardware,
                                              const Deployment &deployment) {
  SystemFacts system(std::move(hardware), deployment);
  if (llvm::Error error = checkSplit(system))
    return std::move(error);
  return system;
}

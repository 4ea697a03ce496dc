//===- Evaluation.h - Results of evaluating a schedule ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The class behind `pipesched._core.Evaluation`.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_EVALUATION_H
#define PIPESCHED_PYTHON_SRC_EVALUATION_H

#include "Module.h"
#include "PipeSched-c/Evaluation.h"
#include <memory>

namespace pipesched::python {

/// An evaluation, and the module whose rows it refers to, if any.
class Evaluation {
public:
  Evaluation(std::shared_ptr<Module> module, PipeschedEvaluation evaluation)
      : module(std::move(module)), evaluation(evaluation) {}
  Evaluation(const Evaluation &) = delete;
  ~Evaluation() { pipeschedEvaluationDestroy(evaluation); }

  PipeschedEvaluation get() const { return evaluation; }

private:
  std::shared_ptr<Module> module;
  PipeschedEvaluation evaluation;
};

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_EVALUATION_H

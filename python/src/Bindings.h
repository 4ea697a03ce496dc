//===- Bindings.h - The parts of the extension module -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares one binding function per source file. Types must be bound before the
// functions that take them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_BINDINGS_H
#define PIPESCHED_PYTHON_SRC_BINDINGS_H

#include <nanobind/nanobind.h>

namespace pipesched::python {

void bindCosts(nanobind::module_ &module);
void bindProblem(nanobind::module_ &module);
void bindIR(nanobind::module_ &module);
void bindModule(nanobind::module_ &module);
void bindEvaluation(nanobind::module_ &module);
void bindDrawing(nanobind::module_ &module);
void bindSweep(nanobind::module_ &module);
void bindOptimize(nanobind::module_ &module);
void bindOverlap(nanobind::module_ &module);
void bindPlanning(nanobind::module_ &module);
void bindPlanSearch(nanobind::module_ &module);
void bindProgram(nanobind::module_ &module);

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_BINDINGS_H

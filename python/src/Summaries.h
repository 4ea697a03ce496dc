//===- Summaries.h - Summaries as columns -----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields of PipeschedSummary by name.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_SUMMARIES_H
#define PIPESCHED_PYTHON_SRC_SUMMARIES_H

#include "PipeSched-c/Evaluation.h"
#include <nanobind/nanobind.h>
#include <vector>

namespace pipesched::python {

/// One array per field.
nanobind::dict toColumns(const std::vector<PipeschedSummary> &summaries);

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_SUMMARIES_H

//===- Report.h - The report as JSON ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All numbers of one schedule as one JSON object: formula, table, execution,
// memory. The keys are a contract: new keys may be added, but none is renamed
// or left out.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_REPORT_H
#define PIPESCHED_TARGET_REPORT_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace llvm::json {
class OStream;
} // namespace llvm::json

namespace pipesched {

/// Writes one object. Doubles have enough digits to be read back exactly;
/// absent sections and unknown values are null.
void writeReport(llvm::json::OStream &json, const NamedEvaluation &result);

} // namespace pipesched

#endif // PIPESCHED_TARGET_REPORT_H

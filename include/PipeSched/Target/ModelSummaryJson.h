//===- ModelSummaryJson.h - A model in a few numbers, as JSON ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Output of `pipesched show --model`; docs/Models.md describes the keys.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_MODELSUMMARYJSON_H
#define PIPESCHED_TARGET_MODELSUMMARYJSON_H

#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/CostModel/Layers/ModelSummary.h"
#include "llvm/Support/JSON.h"

namespace pipesched {

/// Writes one object. `notes` lists assumptions and omissions of a reader, and
/// `attention` states the kernels of the model. Unknown FLOPs and kernels are
/// null.
void writeModelSummary(llvm::json::OStream &json, const ModelSummary &summary,
                       llvm::ArrayRef<std::string> notes,
                       std::optional<Attention> attention);

} // namespace pipesched

#endif // PIPESCHED_TARGET_MODELSUMMARYJSON_H

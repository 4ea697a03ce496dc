//===- MegatronLayout.h - Megatron-Core's pipeline layouts ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The string of --pipeline-model-parallel-layout, which lists the layers of
// each stage. docs/Exchange.md describes the grammar and its limits.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EXCHANGE_MEGATRONLAYOUT_H
#define PIPESCHED_EXCHANGE_MEGATRONLAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace pipesched {

/// Returns the decoder layers of each stage: `Et*2|(t|)*2,tL` is 2, 1, 1, 1.
/// The embedding E must come first, the loss L last. Errors name the character,
/// counted from 1: a text that is not a layout; MTP layers (m), which blocks
/// cannot express; more than 2^24 stages or repetitions.
llvm::Expected<std::vector<int64_t>>
parseMegatronLayout(llvm::StringRef layout);

/// Returns the layout of these stages, with equal neighbours as `(t*2|)*3`.
/// parseMegatronLayout reads it back.
std::string writeMegatronLayout(llvm::ArrayRef<int64_t> layersOfStages);

} // namespace pipesched

#endif // PIPESCHED_EXCHANGE_MEGATRONLAYOUT_H

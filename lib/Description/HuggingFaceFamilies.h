//===- HuggingFaceFamilies.h - Tables of model types ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A config.json gives sizes; its `model_type` determines the norms, biases and
// gates.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_DESCRIPTION_HUGGINGFACEFAMILIES_H
#define PIPESCHED_LIB_DESCRIPTION_HUGGINGFACEFAMILIES_H

#include "PipeSched/CostModel/Kernels/Architecture.h"

namespace pipesched {

/// Traits of a family. A field of the file has precedence over a trait.
enum ModelTraits : unsigned {
  kGated = 1u << 0,
  kTied = 1u << 1, ///< head and embedding share a table
  kQkvBias = 1u << 2,
  kOutputBias = 1u << 3,
  kMlpBias = 1u << 4,
  kHeadBias = 1u << 5,
  kAllBiases = kQkvBias | kOutputBias | kMlpBias,
  /// `attention_bias` applies only to the biases of queries, keys and values.
  kNarrowBias = 1u << 6,
  kParallel = 1u << 7,   ///< attention and MLP run in parallel
  kSharedNorm = 1u << 8, ///< attention and MLP share one norm
  kNormsAfter = 1u << 9,
  kNormsAround = 1u << 10,
  kLearnedPositions = 1u << 11,
  kEmbeddingNorm = 1u << 12,
  kSinks = 1u << 13,
  kExpertBiases = 1u << 14,
  kRouterBias = 1u << 15,
  kSharedGate = 1u << 16,
  kSharedExpert = 1u << 17, ///< one shared expert, as wide as the others
  kQkNormOff = 1u << 18,    ///< off unless the file enables it
  kFourfold = 1u << 19,     ///< by default the MLP is 4 hidden wide
};

struct ModelFamily {
  llvm::StringLiteral type;
  Norm norm = Norm::RMSNorm;
  unsigned traits = kGated;
  QueryKeyNorm queryKeyNorm = QueryKeyNorm::None;
  Norm queryKeyNormForm = Norm::RMSNorm;

  bool has(ModelTraits trait) const { return traits & trait; }
};

/// The family of a `model_type`, or null.
const ModelFamily *findModelFamily(llvm::StringRef modelType);

/// Returns why models of a `model_type` are not supported, as words that follow
/// the type; empty if they are supported.
llvm::StringRef reasonUnsupported(llvm::StringRef modelType);

/// A field that no cost model covers. If its value enables anything, it changes
/// the cost of attention or the number of layers that a token passes.
struct UnmodelledField {
  llvm::StringLiteral name, why;
};
llvm::ArrayRef<UnmodelledField> unmodelledFields();

/// The default of a number that files of a family may omit.
struct ModelDefault {
  llvm::StringLiteral type, field;
  int64_t value;
  /// Only for nested configurations, which omit values that equal the default
  /// of their class.
  bool isNestedOnly;
};
llvm::ArrayRef<ModelDefault> modelDefaults();

/// Whether a field affects neither sizes nor work.
bool isIgnoredField(llvm::StringRef name);

} // namespace pipesched

#endif // PIPESCHED_LIB_DESCRIPTION_HUGGINGFACEFAMILIES_H

//===- OverlappedLayers.h - Parts of layers on two streams ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules a forward and a backward that run on a worker together, part by
// part (docs/CostModel.md, "Parts of layers"): while rows of one travel to
// experts, the other computes.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_PAIRS_OVERLAPPEDLAYERS_H
#define PIPESCHED_COSTMODEL_PAIRS_OVERLAPPEDLAYERS_H

#include "PipeSched/Facts/System.h"
#include "PipeSched/Schedule/Kinds/Phase.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <array>
#include <string>
#include <vector>

namespace pipesched {

/// The parts of a layer, in the order of its forward. Attention also includes
/// the router and the sum of the experts' results.
enum class LayerPart : uint8_t { Attention, Dispatch, Mlp, Combine };

template <>
struct EnumNames<LayerPart> {
  static constexpr EnumName<LayerPart> values[] = {
      {LayerPart::Attention, "attention", "Everything but the experts"},
      {LayerPart::Dispatch, "dispatch", "Rows on their way to experts"},
      {LayerPart::Mlp, "mlp", "The experts, or the MLP"},
      {LayerPart::Combine, "combine", "Rows on their way back"}};
};

/// A stream runs parts of layers, one at a time and in the order of issue.
enum class Stream : uint8_t { Compute, Exchange };

template <>
struct EnumNames<Stream> {
  static constexpr EnumName<Stream> values[] = {
      {Stream::Compute, "compute", "Kernels of the accelerators"},
      {Stream::Exchange, "exchange", "Rows on their way to experts and back"}};
};

constexpr Stream streamOf(LayerPart part) {
  return part == LayerPart::Dispatch || part == LayerPart::Combine
             ? Stream::Exchange
             : Stream::Compute;
}

/// A phase (F, I or W) of a part of a layer.
struct PartPhase {
  LayerPart part = LayerPart::Attention;
  Phase phase = Phase::Forward;

  friend bool operator==(const PartPhase &a, const PartPhase &b) {
    return a.part == b.part && a.phase == b.phase;
  }
};

/// Returns "mlp.I".
std::string nameOf(PartPhase what);

/// The parts of one layer of the forward and of one layer of the backward, in
/// order of issue.
using PairPattern = llvm::SmallVector<PartPhase, 10>;

/// Returns the parts of one layer of the forward and of one of the backward: 10
/// parts with `delaysWeights`, else 8, where I is the whole backward. `Best`
/// and `Fluid` have no pattern; for them it returns DeepSeek's.
PairPattern patternOf(PairOrder order, bool delaysWeights);

/// Reads "combine.I,attention.F,...". Errors: a name that is not a part and
/// phase; W of a dispatch or combine; parts that are missing or repeated.
llvm::Expected<PairPattern> parsePairPattern(llvm::StringRef text,
                                             bool delaysWeights);

/// The times of the parts of a layer, ps. Dispatch and combine have no W.
struct LayerTimes {
  /// By part, then F, I and W.
  std::array<std::array<int64_t, 3>, kNumEnumValues<LayerPart>> ps = {};

  int64_t of(PartPhase what) const;
  int64_t &of(PartPhase what);
};

struct PairOptions {
  PairOrder order = PairOrder::DeepSeek;
  /// Used instead of `order` if it is not empty.
  PairPattern pattern;
  /// Whether W runs separately after I. Otherwise I takes I + W.
  bool delaysWeights = true;
  /// The time of a part while the other stream is busy, in percent of its
  /// undisturbed time; from 100 to kMaxSlowdown.
  int64_t computePercent = 100, exchangePercent = 100;
};

constexpr int64_t kMaxSlowdown = 1000;

struct PartRun {
  PartPhase what;
  int64_t layer = 0; ///< index in the forward or in the backward cell
  int64_t startPs = 0, endPs = 0;
};

struct PairSchedule {
  PairPattern pattern; ///< the order of issue
  std::vector<PartRun> runs;
  int64_t endPs = 0;
  /// The times at which the output of the forward and the gradient of the
  /// backward's input are ready.
  int64_t forwardPs = 0, gradientPs = 0;
  /// The time in which each stream is busy, and the exposed time, in which only
  /// the exchange stream is.
  int64_t computePs = 0, exchangePs = 0, exposedPs = 0;
  /// A lower bound on the end of any order.
  int64_t boundPs = 0;
  /// Whether it is known that no other order ends earlier: the end equals the
  /// bound, or all orders of a pair of single layers were compared.
  bool isOptimal = false;
  /// The number of orders that the search timed, and of orders that a bound
  /// excluded.
  int64_t numTimed = 0, numCut = 0;
};

/// Schedules a forward through `forward` together with a backward through
/// `backward`, each in the order of its layers. The i-th forward layer is
/// paired with the i-th layer from the end of the backward; the extra layers of
/// one of them run after the others. Either may be empty.
///
/// A stream runs one part at a time, in the order of issue. A part of the
/// forward waits for the previous part, from layer to layer. I of a part waits
/// for I of the next part, and W waits for the I of its part. With factors,
/// parts that run at the same time are slower.
///
/// `Best` finds the order with the earliest end by branch and bound, among all
/// orders that are the same for each pair of layers. The bound of an order of
/// the compute stream is its end if any number of exchanges could run at once.
///
/// Errors: negative times; factors out of range; order `Fluid`, which has no
/// parts; an order whose streams wait for each other, with the cycle; times
/// over int64.
llvm::Expected<PairSchedule> schedulePair(llvm::ArrayRef<LayerTimes> forward,
                                          llvm::ArrayRef<LayerTimes> backward,
                                          const PairOptions &options);

/// The times of the parts of `count` equal layers of a model. Kernels before
/// the first exchange belong to attention, kernels between the exchanges to the
/// experts. Kernels after the second exchange, such as the sum of the results,
/// run before the next layer and count as attention. In a layer without
/// exchanges the MLP starts with the first kernel named so. The parts of a
/// phase add up to the time of the layer. Compute takes the longer time of
/// device and host.
struct LayerKind {
  std::string name;
  int64_t count = 0;
  LayerTimes times;
};

/// Returns the times of the parts of all layers. Errors: times over int64.
llvm::Expected<std::vector<LayerKind>>
costLayerParts(const ModelFacts &model, const SystemFacts &system);

/// Returns the times of the parts of one layer with these kernels. With
/// `recomputesInBackward`, I includes the recomputation of `model.recompute`.
/// The system must have rates for all kernels. Errors: times over int64.
llvm::Expected<LayerTimes> costLayer(const BlockFacts &block,
                                     const ModelFacts &model,
                                     const SystemFacts &system,
                                     bool recomputesInBackward);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_PAIRS_OVERLAPPEDLAYERS_H

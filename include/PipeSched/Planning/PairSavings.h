//===- PairSavings.h - Exchanges that pairs of cells hide -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upper bounds on the time that overlapped pairs of a forward and a backward
// save, from the parts of single layers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_PAIRSAVINGS_H
#define PIPESCHED_PLANNING_PAIRSAVINGS_H

#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "PipeSched/Planning/Candidates.h"

namespace pipesched {

/// A pair of a forward through the layers of one stage and a backward through
/// those of another saves what both take by themselves less the time of the
/// pair. All times are for one microbatch, ps.
class PairSavings {
public:
  /// Errors: those of resolveCosts and costLayerParts; costs without a model or
  /// a system.
  static llvm::Expected<PairSavings> create(const CostSources &costs);

  /// The most that pairs save however the layers are divided: compute is never
  /// hidden behind compute, nor an exchange behind an exchange.
  double mostPs() const { return anyPs; }

  /// The most of the time of a layer, as a part of it.
  double mostPart() const { return anyPart; }

  /// The most that they save on each stage of each path with these numbers of
  /// layers, if each forward is paired with the backward that suits it best.
  std::vector<std::vector<double>> ofStages(const LayerCounts &counts);

private:
  /// Numbers of layers by kind.
  using Stage = std::vector<std::pair<uint32_t, int64_t>>;

  std::vector<Stage> divide(llvm::ArrayRef<int64_t> counts) const;
  int32_t numberOf(Stage stage);
  double pairPs(int32_t forward, int32_t backward);

  std::vector<LayerKind> kinds;
  PairOptions options;
  double anyPs = 0, anyPart = 0;
  std::map<Stage, int32_t> numbers;
  std::vector<std::vector<LayerTimes>> stages; ///< the layers of each
  std::map<std::pair<int32_t, int32_t>, double> known;
};

} // namespace pipesched

#endif // PIPESCHED_PLANNING_PAIRSAVINGS_H

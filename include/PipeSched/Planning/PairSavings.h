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

/// Upper bounds on the savings of pairs. A pair of a forward through the layers
/// of one stage and a backward through the layers of another saves the sum of
/// both times minus the time of the pair. All times are per microbatch, ps.
class PairSavings {
public:
  /// Computes the parts of layers. Errors: as for resolveCosts and
  /// costLayerParts; costs without a model or a system.
  static llvm::Expected<PairSavings> create(const CostSources &costs);

  /// The most that pairs save for any division of the layers: compute never
  /// overlaps with compute, nor an exchange with an exchange.
  double mostPs() const { return anyPs; }

  /// The most that pairs save of the time of a layer, as a fraction of it.
  double mostPart() const { return anyPart; }

  /// Returns the most that pairs save on each stage of each path with these
  /// numbers of layers, if each forward is paired with the backward that is
  /// best for it.
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
  std::vector<std::vector<LayerTimes>> stages; ///< the layers of each stage
  std::map<std::pair<int32_t, int32_t>, double> known;
};

} // namespace pipesched

#endif // PIPESCHED_PLANNING_PAIRSAVINGS_H

//===- PairStreams.h - Streams that run parts of layers ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the timing of one order and the search for the best share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_PAIRS_PAIRSTREAMS_H
#define PIPESCHED_LIB_COSTMODEL_PAIRS_PAIRSTREAMS_H

#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"

namespace pipesched {

/// Layers of a pair of cells, whose times are checked.
struct PairLayers {
  llvm::ArrayRef<LayerTimes> forward, backward;
  bool delaysWeights = true;

  /// The time of a part: of I and W together where W is not delayed.
  int64_t timeOf(PartPhase what, int64_t layer) const;
};

/// The exchanges that run at the same time.
enum class Exchanges : uint8_t { OneAtATime, AnyNumber };

/// Runs the parts in the order of `pattern`, layer by layer. With any number of
/// exchanges at once each starts when what it waits for has ended, and nothing
/// slows down. Errors: streams that wait for each other.
llvm::Expected<PairSchedule> runPair(const PairLayers &layers,
                                     const PairPattern &pattern,
                                     const PairOptions &options,
                                     Exchanges exchanges);

/// A time that no order goes below: either stream, either cell by itself.
int64_t boundPair(const PairLayers &layers);

/// The first end of all orders that are the same for all layers.
llvm::Expected<PairSchedule> findBestPair(const PairLayers &layers,
                                          const PairOptions &options);

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_PAIRS_PAIRSTREAMS_H

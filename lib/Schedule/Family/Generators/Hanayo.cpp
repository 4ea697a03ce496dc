//===- Hanayo.cpp - The greedy rule on waves ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hanayo (Liu et al. 2023, arXiv 2308.15762): a path that goes down and up the
// workers, filled by the greedy rule (arXiv 2605.24006).
//
//===----------------------------------------------------------------------===//

#include "Support.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

static Expected<Placement> placeWaves(const Placement &placement,
                                      std::optional<int64_t> waves) {
  if (isPlainLinear(placement)) {
    Expected<Path> path =
        placeWave(placement.getNumWorkers(), waves.value_or(1));
    if (!path)
      return path.takeError();
    return replacePaths(placement, {std::move(*path)});
  }
  Expected<int64_t> found = readWaves(placement, "hanayo");
  if (!found)
    return found.takeError();
  if (waves && *waves != *found)
    return formatError("hanayo is asked for {0} waves, but the path has {1}",
                       *waves, *found);
  return placement;
}

Expected<Table> pipesched::generateHanayo(const Placement &placement,
                                          const HanayoOptions &options) {
  Expected<Placement> waves = placeWaves(placement, options.waves);
  if (!waves)
    return waves.takeError();
  if (Error error =
          checkTableSize(*waves, "hanayo", options.splitBackward ? 3 : 2))
    return std::move(error);
  return generateGreedy(*waves, options);
}

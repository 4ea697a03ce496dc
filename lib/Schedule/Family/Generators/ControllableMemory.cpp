//===- ControllableMemory.cpp - V-Half, V-Min and automatic zero-bubble ---===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// V schedules whose building block determines their memory (Qi et al. 2024b,
// arXiv 2405.15362, section 4).
//
//===----------------------------------------------------------------------===//

#include "LeftShift.h"
#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "Support.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;

/// Holds half of 1F1B's activations. The slots of a worker must differ modulo
/// the period of 6; with an even number of workers `extra` ensures that.
static BuildingBlock makeHalf(int64_t numWorkers) {
  int64_t extra = numWorkers % 2 == 0 ? 3 : 0;
  return {{{{0, 2},
            {3 * numWorkers - 2, -1},
            {3 * numWorkers + extra - 1, 2},
            {6 * numWorkers + extra - 2, -1}}}};
}

/// Holds a third of 1F1B's activations: each cell runs right after the one that
/// it waits for. With a multiple of three workers, gradients start two slots
/// later, so that cells do not collide.
static BuildingBlock makeMin(int64_t numWorkers) {
  int64_t extra = numWorkers % 3 == 0 ? 2 : 0;
  return {{{{0, 1},
            {2 * numWorkers - 1, -1},
            {2 * numWorkers + extra, 1},
            {4 * numWorkers + extra - 1, -1}}}};
}

/// Holds as much as 1F1B: forwards are two slots apart, gradients four and one.
/// This block is not from the paper. It is the best of those tried for memories
/// between V-Half's and 1F1B's.
static BuildingBlock makeWide(int64_t numWorkers) {
  return {{{{0, 2},
            {4 * numWorkers - 3, -2},
            {4 * numWorkers - 2, 4},
            {9 * numWorkers - 6, -1}}}};
}

/// For less memory than V-Min. Forwards down are two slots apart and all other
/// cells one, so that workers near the turn do not wait for each other. This
/// block is not from the paper either.
static BuildingBlock makeSteep(int64_t numWorkers) {
  return {{{{0, 2},
            {3 * numWorkers - 2, -1},
            {3 * numWorkers - 1, 1},
            {5 * numWorkers - 2, -1}}}};
}

/// The peak of V-Min in the paper, 2 (floor((D+1)/3) + 1); its block holds one
/// less if 3 divides D+1.
static int64_t peakOfMin(int64_t numWorkers) {
  return 2 * ((numWorkers + 1) / 3 + 1);
}

/// The smallest period that keeps a block within `memory` >= 2.
static int64_t fitPeriod(BuildingBlock block, int64_t numWorkers,
                         int64_t memory) {
  // Two activations suffice if each microbatch enters after the one before it
  // has left.
  int64_t tooSmall = block.period - 1;
  int64_t fits = std::max(block.period, block.slotOf(GradientUp, 0));
  while (fits - tooSmall > 1) {
    block.period = tooSmall + (fits - tooSmall) / 2;
    (block.peakOf(numWorkers) <= memory ? fits : tooSmall) = block.period;
  }
  return fits;
}

/// Blocks that may be the best for a memory, each with the smallest period that
/// fits and, if that period is longer than the block's own, also with the next.
static llvm::SmallVector<BuildingBlock> chooseBlocks(int64_t numWorkers,
                                                     int64_t memory) {
  BuildingBlock half = makeHalf(numWorkers);
  llvm::SmallVector<BuildingBlock, 3> candidates = {half};
  if (memory >= half.peakOf(numWorkers))
    candidates.push_back(makeWide(numWorkers));
  else
    candidates.append({makeMin(numWorkers), makeSteep(numWorkers)});
  llvm::SmallVector<BuildingBlock> blocks;
  for (BuildingBlock block : candidates) {
    int64_t period = fitPeriod(block, numWorkers, memory);
    bool hasGaps = period != block.period;
    for (block.period = period; block.period <= period + hasGaps;
         ++block.period)
      blocks.push_back(block);
  }
  return blocks;
}

/// Tries both left shifts of every block and returns the shortest table, or the
/// first of several that are equally short.
static Table generateFromBlocks(const Placement &placement,
                                ArrayRef<BuildingBlock> blocks,
                                int64_t memory) {
  Table best = makeEmptyTable(placement, GradientAfter::InputGrad, 3);
  std::vector<Row> trial = best.rows;
  int64_t fewestSlots = std::numeric_limits<int64_t>::max();
  for (const BuildingBlock &block : blocks)
    for (bool mayOvertake : {false, true}) {
      int64_t slots = shiftLeft(block, {memory, mayOvertake, fewestSlots},
                                placement, trial);
      if (slots == fewestSlots)
        continue;
      fewestSlots = slots;
      std::swap(best.rows, trial);
    }
  return best;
}

static Expected<Placement> placeVSchedule(const Placement &given,
                                          const GeneratorOptions &options,
                                          llvm::StringRef family) {
  Expected<Placement> placement = placeVPath(given, family);
  if (!placement)
    return placement.takeError();
  if (Error error = checkGradientAfterInput(options, family))
    return std::move(error);
  if (Error error = checkTableSize(*placement, family, 3))
    return std::move(error);
  return placement;
}

Expected<Table> pipesched::generateVHalf(const Placement &given,
                                         const GeneratorOptions &options) {
  Expected<Placement> placement = placeVSchedule(given, options, "v-half");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  BuildingBlock block = makeHalf(numWorkers);
  return generateFromBlocks(*placement, block, block.peakOf(numWorkers));
}

/// V-Half in which gradients start one period later for each barrier that the
/// shards of the vocabulary have.
Expected<Table>
pipesched::generateVocabVHalf(const Placement &given,
                              const VocabularyOptions &options) {
  Expected<Placement> placement =
      placeVSchedule(given, options, "vocab-v-half");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  int64_t numBarriers =
      options.algorithm == VocabularyAlgorithm::Vocab1 ? 2 : 1;
  BuildingBlock block = makeHalf(numWorkers);
  block.legs[GradientDown].first += numBarriers * block.period;
  block.legs[GradientUp].first += numBarriers * block.period;
  Table table = generateFromBlocks(*placement, block, block.peakOf(numWorkers));
  Expected<std::vector<Row>> rows =
      spreadVocabulary(table.view(), options.algorithm);
  if (!rows)
    return rows.takeError();
  table.rows = std::move(*rows);
  return table;
}

Expected<Table> pipesched::generateVMin(const Placement &given,
                                        const GeneratorOptions &options) {
  Expected<Placement> placement = placeVSchedule(given, options, "v-min");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  return generateFromBlocks(*placement, makeMin(numWorkers),
                            peakOfMin(numWorkers));
}

Expected<Table> pipesched::generateZBAuto(const Placement &given,
                                          const ZBAutoOptions &options) {
  Expected<Placement> placement = placeVSchedule(given, options, "zb-auto");
  if (!placement)
    return placement.takeError();
  int64_t numWorkers = placement->getNumWorkers();
  int64_t memory = options.memory.value_or(2 * numWorkers);
  if (memory < 2)
    return formatError("zb-auto takes a memory of at least 2 activations, one "
                       "for each stage of a worker, found {0}",
                       memory);
  // If all activations fit, the memory is no limit.
  int64_t numLocalPairs = 2 * placement->getNumMicrobatches();
  if (memory >= numLocalPairs)
    memory = std::max(numLocalPairs, 2 * numWorkers);
  return generateFromBlocks(*placement, chooseBlocks(numWorkers, memory),
                            memory);
}

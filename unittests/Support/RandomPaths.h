//===- RandomPaths.h - Paths with separate blocks ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Paths that divide one model into blocks in different ways.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_RANDOMPATHS_H
#define PIPESCHED_UNITTESTS_SUPPORT_RANDOMPATHS_H

#include "TestTables.h"
#include <random>

namespace pipesched {

inline Path pathWith(std::vector<int32_t> workers, std::vector<int64_t> blocks,
                     MicrobatchRange takes) {
  Path path = pathOn(std::move(workers), {takes});
  path.blocks = std::move(blocks);
  return path;
}

/// Paths over three workers; each takes one microbatch and has up to
/// `mostStages` stages. Two of three divide the same number of blocks at
/// random.
template <typename Random>
Placement makeRandomPaths(Random &random, int64_t mostPaths,
                          int64_t mostStages) {
  int64_t numPaths = 1 + random() % mostPaths, total = 1 + random() % 12;
  std::vector<Path> paths;
  for (int64_t p = 0; p < numPaths; ++p) {
    std::vector<int32_t> workers(1 + random() % mostStages);
    for (int32_t &worker : workers)
      worker = random() % 3;
    std::vector<int64_t> blocks(workers.size(), 0);
    for (int64_t block = 0; block < total; ++block)
      ++blocks[random() % blocks.size()];
    paths.push_back(pathWith(workers,
                             random() % 3 ? blocks : std::vector<int64_t>(),
                             {p, p + 1, 1}));
  }
  return makePlacement(3, numPaths, paths);
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_RANDOMPATHS_H

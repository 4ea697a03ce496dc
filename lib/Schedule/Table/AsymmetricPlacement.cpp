//===- AsymmetricPlacement.cpp - Halves of unequal length -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights that make one half of a path longer than the other without making any
// worker busier than another (arXiv 2605.24006, asymmetric placement).
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Placement.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <numeric>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static StringRef nameOf(Asymmetry way) {
  switch (way) {
  case Asymmetry::Halves:
    return "halves";
  case Asymmetry::Ramp:
    return "a ramp";
  case Asymmetry::Ends:
    return "unequal ends";
  case Asymmetry::Middle:
    return "an unequal middle";
  }
  llvm_unreachable("covered switch");
}

/// Reads a number from 1 to kMaxPart; errors quote the text.
static Expected<int64_t> parsePart(StringRef part, StringRef text) {
  int64_t value = 0;
  if (part.trim().getAsInteger(10, value))
    return formatError("'{0}' is no ratio: expected two numbers such as 1:2",
                       text);
  if (value < 1 || value > Ratio::kMaxPart)
    return formatError("a part of the ratio {0} is {1}: it must be 1 to {2}",
                       text, value, Ratio::kMaxPart);
  return value;
}

Expected<Ratio> pipesched::parseRatio(StringRef text) {
  auto [first, second] = text.split(':');
  Expected<int64_t> left = parsePart(first, text);
  if (!left)
    return left.takeError();
  Expected<int64_t> right = parsePart(second, text);
  if (!right)
    return right.takeError();
  return Ratio{*left, *right};
}

/// By how much stage s of the first half is shorter than the mean, in an
/// arbitrary unit; stage S-1-s is longer by as much.
///
///   S = 6    Halves  1 1 1    Ramp  5 3 1    Ends  1 0 0    Middle  0 0 1
static int64_t departure(Asymmetry way, int64_t stage, int64_t half) {
  switch (way) {
  case Asymmetry::Halves:
    return 1;
  case Asymmetry::Ramp:
    return 2 * (half - stage) - 1;
  case Asymmetry::Ends:
    return stage == 0;
  case Asymmetry::Middle:
    return stage == half - 1;
  }
  llvm_unreachable("covered switch");
}

/// Refuses a ratio at which some stage would have no length left. With
/// departures p of sum P, largest departure p' and h = S/2, the ratio of the
/// shorter half to the longer must be above (h p' - P) : (h p' + P).
static Error refuseRatio(int64_t numStages, Ratio ratio, Asymmetry way,
                         int64_t largest, int64_t sum) {
  int64_t less = numStages / 2 * largest - sum;
  int64_t more = numStages / 2 * largest + sum;
  int64_t divisor = std::gcd(less, more);
  less /= divisor;
  more /= divisor;
  return formatError("the ratio {0}:{1} as {2} leaves nothing to a stage of "
                     "{3}; ratios between {4}:{5} and {5}:{4} do not",
                     ratio.first, ratio.second, nameOf(way), numStages, less,
                     more);
}

static void reduce(std::vector<int64_t> &weights) {
  int64_t divisor = 0;
  for (int64_t weight : weights)
    divisor = std::gcd(divisor, weight);
  for (int64_t &weight : weights)
    weight /= divisor;
}

/// With h = S/2, departures p of sum P and the ratio a:b, stage s of the first
/// half has weight P(a+b) - h(b-a)p(s) and stage S-1-s has P(a+b) + h(b-a)p(s):
/// the halves have the lengths 2hPa and 2hPb.
Expected<std::vector<int64_t>>
pipesched::asymmetricWeights(int64_t numStages, Ratio ratio, Asymmetry way) {
  if (numStages < 2 || numStages % 2 != 0 || numStages > Cell::kMaxStages)
    return formatError("a path of {0} stages has no two halves: it takes an "
                       "even number from 2 to {1}",
                       numStages, Cell::kMaxStages);
  for ([[maybe_unused]] int64_t part : {ratio.first, ratio.second})
    assert(part >= 1 && part <= Ratio::kMaxPart && "no ratio");
  int64_t half = numStages / 2, sum = 0, largest = 0;
  for (int64_t stage = 0; stage < half; ++stage) {
    sum += departure(way, stage, half);
    largest = std::max(largest, departure(way, stage, half));
  }
  int64_t common = std::gcd(sum, half);
  int64_t mean = sum / common * (ratio.first + ratio.second);
  int64_t unit = half / common * (ratio.second - ratio.first);
  if (std::abs(unit) * largest >= mean)
    return refuseRatio(numStages, ratio, way, largest, sum);
  if (!llvm::checkedMul(numStages, mean))
    return formatError("the weights for a ratio of {0}:{1} over {2} stages add "
                       "up to more than 2^63 - 1",
                       ratio.first, ratio.second, numStages);

  std::vector<int64_t> weights(numStages);
  for (int64_t stage = 0; stage < half; ++stage) {
    int64_t difference = unit * departure(way, stage, half);
    weights[stage] = mean - difference;
    weights[numStages - 1 - stage] = mean + difference;
  }
  reduce(weights);
  return weights;
}

static Error refuseBlocks(const Path &path, Ratio ratio, Asymmetry way,
                          int64_t blocks, int64_t parts) {
  return formatError("{0} blocks cannot be divided {1}:{2} as {3} over {4} "
                     "stages, which takes a multiple of {5}; the nearest: {6}",
                     blocks, ratio.first, ratio.second, nameOf(way),
                     path.getNumStages(), parts,
                     nearestMultiples(std::max<int64_t>(blocks, 0), parts));
}

Error pipesched::makeAsymmetric(llvm::MutableArrayRef<Path> paths, Ratio ratio,
                                Asymmetry way, std::optional<int64_t> blocks) {
  for (Path &path : paths) {
    Expected<std::vector<int64_t>> weights =
        asymmetricWeights(path.getNumStages(), ratio, way);
    if (!weights)
      return weights.takeError();
    path.weights = std::move(*weights);
    path.blocks.clear();
    if (!blocks)
      continue;
    int64_t parts =
        std::accumulate(path.weights.begin(), path.weights.end(), int64_t(0));
    if (*blocks < 1 || *blocks % parts != 0)
      return refuseBlocks(path, ratio, way, *blocks, parts);
    std::swap(path.blocks, path.weights);
    for (int64_t &count : path.blocks)
      count *= *blocks / parts;
  }
  return Error::success();
}

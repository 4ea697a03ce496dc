//===- NearestMultiples.cpp - Nearest multiples for messages --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The multiple below is the number minus its remainder; the next multiple is
// larger by `factor`.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/NearestMultiples.h"
#include "llvm/Support/CheckedArithmetic.h"

std::string pipesched::nearestMultiples(int64_t value, int64_t factor) {
  int64_t below = value - value % factor;
  std::string text = below > 0 ? std::to_string(below) : "";
  if (std::optional<int64_t> above = llvm::checkedAdd(below, factor))
    text += (text.empty() ? "" : " and ") + std::to_string(*above);
  return text;
}

//===- ClosestName.cpp - Suggestions for misspelled names -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Limits the distance: every list has a name that is closest to `nope`, but
// `nope` is not a misspelling of it.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/ClosestName.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using llvm::StringRef;

StringRef pipesched::closeName(StringRef name,
                               llvm::ArrayRef<StringRef> known) {
  auto numLetters = static_cast<unsigned>(name.size());
  unsigned limit = std::min(numLetters, 2 + numLetters / 3);
  StringRef best;
  unsigned bestWhole = 0;
  for (StringRef candidate : known) {
    StringRef front = candidate.take_front(name.size());
    unsigned whole = name.edit_distance_insensitive(candidate);
    unsigned distance =
        std::min(whole, name.edit_distance_insensitive(front) + 1);
    // Among equally close names, take the one with the least text after the
    // match.
    bool isCloser = distance == limit && !best.empty() && whole < bestWhole;
    if (distance >= limit && !isCloser)
      continue;
    best = candidate;
    bestWhole = whole;
    limit = distance;
  }
  return best;
}

std::string pipesched::nameHint(StringRef name,
                                llvm::ArrayRef<StringRef> known) {
  constexpr size_t kMostListed = 20;
  if (known.empty())
    return "";
  if (StringRef close = closeName(name, known); !close.empty())
    return (", the closest is '" + close + "'").str();
  std::string listed = llvm::join(known.take_front(kMostListed), ", ");
  if (known.size() > kMostListed)
    listed += " and " + std::to_string(known.size() - kMostListed) + " more";
  return " (known: " + listed + ")";
}

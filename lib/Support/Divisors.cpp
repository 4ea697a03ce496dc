//===- Divisors.cpp - Nearest divisors for messages -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches down and up from a number, within a limit on the time.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Divisors.h"
#include <algorithm>

std::string pipesched::nearestDivisors(int64_t total, int64_t parts) {
  constexpr int64_t reach = int64_t(1) << 20;
  int64_t below = std::min(parts, total);
  int64_t least = std::max<int64_t>(1, below - reach);
  while (below > least && total % below)
    --below;
  if (total % below)
    below = 1;
  std::string text = std::to_string(below);

  int64_t most = parts < total - reach ? parts + reach : total;
  for (int64_t above = parts; above <= most; ++above)
    if (total % above == 0)
      return text + " and " + std::to_string(above);
  return text;
}

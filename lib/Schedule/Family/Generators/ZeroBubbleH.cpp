//===- ZeroBubbleH.cpp - ZB-H1 and ZB-H2 ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The handcrafted schedules of Qi et al. 2024 (arXiv 2401.10241, section 2).
// Their "B" is I here.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

///   F0 .. F(w-1) | I0 Fw .. I(d-1) F(w+d-1) | Id W0 F(w+d) .. | W(N-d) ..
///   warm-up of w   W is delayed by d          alternating       the rest
static void writeZeroBubbleH(RowWriter &row, int64_t stage, int64_t warmUp,
                             int64_t delay, const Placement &placement) {
  int64_t numUnits = placement.getNumUnits();
  for (int64_t i = 0; i < warmUp; ++i)
    row.forward(stage, i);
  for (int64_t i = 0; i < numUnits; ++i) {
    row.inputGrad(stage, backwardUnit(placement, i));
    if (i >= delay)
      row.weightGrad(stage, backwardUnit(placement, i - delay));
    if (i + warmUp < numUnits)
      row.forward(stage, i + warmUp);
  }
  for (int64_t i = std::max<int64_t>(0, numUnits - delay); i < numUnits; ++i)
    row.weightGrad(stage, backwardUnit(placement, i));
}

namespace {
struct WarmUpAndDelay {
  int64_t warmUp, delay;
};
} // namespace

/// The warm-up and delay of a stage are `shapeOf(stage, number of stages)`.
template <typename ShapeOf>
static Expected<Table>
generateZeroBubbleH(const Placement &placement, const GeneratorOptions &options,
                    llvm::StringRef family, ShapeOf &&shapeOf) {
  if (Error error = checkOneStagePerWorker(placement, family))
    return std::move(error);
  if (Error error = checkGradientAfterInput(options, family))
    return std::move(error);
  if (Error error = checkTableSize(placement, family, 3))
    return std::move(error);
  Table table = makeEmptyTable(placement, GradientAfter::InputGrad, 3);
  int64_t numUnits = placement.getNumUnits();
  int64_t numStages = placement.getMaxStages();
  writeRows(table, [&](int64_t stage, RowWriter &row) {
    WarmUpAndDelay shape = shapeOf(stage, numStages);
    int64_t warmUp = shape.warmUp + placement.getNumSlices() - 1;
    writeZeroBubbleH(row, stage, std::min(numUnits, warmUp), shape.delay,
                     placement);
  });
  return table;
}

Expected<Table> pipesched::generateZBH1(const Placement &placement,
                                        const GeneratorOptions &options) {
  return generateZeroBubbleH(placement, options, "zb-h1",
                             [](int64_t stage, int64_t numStages) {
                               return WarmUpAndDelay{numStages - stage, stage};
                             });
}

Expected<Table> pipesched::generateZBH2(const Placement &placement,
                                        const GeneratorOptions &options) {
  return generateZeroBubbleH(
      placement, options, "zb-h2", [](int64_t stage, int64_t numStages) {
        return WarmUpAndDelay{2 * (numStages - stage) - 1, 2 * stage};
      });
}

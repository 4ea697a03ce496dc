//===- StoreBackward.cpp - Changed backwards ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Updates the option `split_backward` of the family, or drops the family.
//
//===----------------------------------------------------------------------===//

#include "StoreBackward.h"
#include "PipeSched/Schedule/Family/Families.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Writes `split_backward` as a generator does: only if it differs from the
/// default of the family. Rows that the family never has lose its name.
static void describeSplit(ScheduleOp schedule, bool isSplit, bool isWhole) {
  const Family *family = findFamily(schedule.getFamily().value_or(""));
  if (!family)
    return;
  if (!isWhole || !family->splitsBackward)
    return schedule.dropFamily();
  Builder builder(schedule.getContext());
  NamedAttrList options(schedule.getFamilyOptionsAttr());
  options.erase("split_backward");
  if (isSplit != *family->splitsBackward)
    options.set("split_backward", builder.getBoolAttr(isSplit));
  schedule.setFamily(*schedule.getFamily(), options.getAttrs());
}

void pipe::storeBackward(ScheduleOp schedule, BackwardChange change,
                         bool isSplit) {
  if (change.numChanged == 0)
    return;
  describeSplit(schedule, isSplit, /*isWhole=*/change.numKept == 0);
  schedule.setGradientAfter(change.gradientAfter);
  storeRows(schedule, std::move(change.rows));
}

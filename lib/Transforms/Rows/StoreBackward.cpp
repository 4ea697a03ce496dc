//===- StoreBackward.cpp - Changed backwards ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the family and updates its option `split_backward`.
//
//===----------------------------------------------------------------------===//

#include "StoreBackward.h"
#include "PipeSched/Schedule/Families.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Writes `split_backward` as a generator does: only if it differs from the
/// default of the family.
static void describeSplit(ScheduleOp schedule, bool isSplit) {
  const Family *family = findFamily(schedule.getFamily().value_or(""));
  if (!family || !family->splitsBackward)
    return;
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
  if (change.numKept == 0)
    describeSplit(schedule, isSplit);
  schedule.setGradientAfter(change.gradientAfter);
  storeRows(schedule, std::move(change.rows));
}

//===- OrderMicrobatches.h - The order of microbatches ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Unequal microbatches take longer in one order than in another. The rows stay
// as they are, and their places get other microbatches.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_ORDERMICROBATCHES_H
#define PIPESCHED_SCHEDULE_EDIT_ORDERMICROBATCHES_H

#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// A rule that orders microbatches by their lengths.
enum class LengthOrder : uint8_t {
  ShortEnds,    ///< short ones at both ends, long ones in the middle
  LongestFirst, ///< by descending length
};

template <>
struct EnumNames<LengthOrder> {
  static constexpr EnumName<LengthOrder> values[] = {
      {LengthOrder::ShortEnds, "short-ends",
       "Short ones first and last, long ones in the middle"},
      {LengthOrder::LongestFirst, "longest-first", "By descending length"}};
};

/// All microbatches in the order of a rule, by number where lengths are equal.
/// `ShortEnds` takes them by ascending length, for the last place, the first,
/// the last that is left, and so on:
///
///   lengths  12  3 25  8 17  5
///   order     5 12 25 17  8  3
///
/// `lengths` is by microbatch.
std::vector<int64_t> orderByLength(llvm::ArrayRef<int64_t> lengths,
                                   LengthOrder order);

/// Returns rows in which the microbatches of each path take its places in
/// `order`, which has all microbatches. The first place of a path belongs to
/// the microbatch that starts first on its first stage. Errors: an order that
/// leaves out a microbatch or has one twice; a microbatch that does not start
/// on its first stage; a node that does not run a microbatch of its new place.
llvm::Expected<std::vector<Row>>
orderMicrobatches(const TableView &table, llvm::ArrayRef<int64_t> order);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_ORDERMICROBATCHES_H

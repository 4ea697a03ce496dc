//===- Backward.h - Whole and split backwards -------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// B as an adjacent pair I W, and back. Generators that split a backward into
// such a pair do it by this function; docs/Transforms.md has the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_BACKWARD_H
#define PIPESCHED_SCHEDULE_BACKWARD_H

#include "PipeSched/Schedule/Table.h"
#include "PipeSched/Support/EnumNames.h"
#include <optional>

namespace pipesched {

/// What happens to backwards that cannot be split or merged.
enum class Remainder : uint8_t {
  Keep,  ///< they stay as they are
  Refuse ///< an error that names the first of them
};

template <>
struct EnumNames<Remainder> {
  static constexpr EnumName<Remainder> values[] = {
      {Remainder::Keep, "keep", "They stay as they are, with a remark"},
      {Remainder::Refuse, "refuse", "They are an error"}};
};

/// Rows with other backwards, and what is true of them.
struct BackwardChange {
  std::vector<Row> rows;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  int64_t numChanged = 0; ///< backwards split or merged
  int64_t numKept = 0;    ///< backwards that could not be
};

struct SplitOptions {
  /// Nothing: W, or where the table has split backwards, as it says.
  std::optional<GradientAfter> gradientAfter;
  /// Of a B that runs overlapped (0F1+3B0): the pair is with a whole backward
  /// (PyTorch's OVERLAP_F_B, a profile's FB).
  Remainder overlapped = Remainder::Keep;
};

/// Each B as I and, right behind it, W. In an aligned table they take the slots
/// of B; where the table's lengths of I and W are not those of B, cells go to
/// their earliest slots (alignRows) if those as written do not hold any more.
/// Linear in entries. Errors, as ViolationError: an overlapped B where options
/// refuse it; split backwards that send the gradient after another cell than
/// `gradientAfter`; lengths that are not known. Others: a table of more than
/// kMaxTableCells entries; those of alignRows.
llvm::Expected<BackwardChange> splitBackward(const TableView &table,
                                             const SplitOptions &options = {});

struct MergeOptions {
  /// Of an I that is not followed by its own W, idle slots aside, or one of
  /// which runs overlapped.
  Remainder apart = Remainder::Keep;
};

/// Each I that its own W follows as B, in the slots of I and the next; idle
/// slots between the two come to stand behind it. A B sends the gradient at its
/// end, later than an I did. Rows that were free of deadlock stay so, but in an
/// aligned table a cell may be at a slot that is too early for its gradient
/// now: then cells go to their earliest slots (alignRows). Without split
/// backwards left, `gradientAfter` is the default. Linear in entries. Errors,
/// as ViolationError: backwards apart where options refuse them; lengths that
/// are not known. Others: those of alignRows.
llvm::Expected<BackwardChange> mergeBackward(const TableView &table,
                                             const MergeOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_BACKWARD_H

//===- Backward.h - Whole and split backwards -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns B into an adjacent pair I W, and back. Generators that split backwards
// use this function; docs/Transforms.md describes the rules.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_BACKWARD_H
#define PIPESCHED_SCHEDULE_EDIT_BACKWARD_H

#include "PipeSched/Schedule/Table/Table.h"
#include "PipeSched/Support/EnumNames.h"
#include <optional>

namespace pipesched {

/// The treatment of backwards that cannot be split or merged.
enum class Remainder : uint8_t {
  Keep,  ///< they are kept
  Refuse ///< an error that names the first of them
};

template <>
struct EnumNames<Remainder> {
  static constexpr EnumName<Remainder> values[] = {
      {Remainder::Keep, "keep", "They stay as they are, with a remark"},
      {Remainder::Refuse, "refuse", "They are an error"}};
};

/// Rows with changed backwards, and counts of the changes.
struct BackwardChange {
  std::vector<Row> rows;
  GradientAfter gradientAfter = GradientAfter::InputGrad;
  int64_t numChanged = 0; ///< backwards split or merged
  int64_t numKept = 0;    ///< backwards that could not be changed
};

struct SplitOptions {
  /// If absent, the table's rule if it has split backwards, else W.
  std::optional<GradientAfter> gradientAfter;
  /// The treatment of a B that runs overlapped (0F1+3B0): overlapped pairs need
  /// a whole backward (PyTorch's OVERLAP_F_B, a profile's FB).
  Remainder overlapped = Remainder::Keep;
};

/// Replaces each B by I and, right after it, W. In an aligned table they take
/// the slots of B. If the table's lengths of I and W differ from the lengths of
/// B and the written slots are no longer valid, cells go to their earliest
/// slots (alignRows). Linear in entries. Errors, as ViolationError: an
/// overlapped B if the options refuse it; split backwards that send the
/// gradient after a cell other than `gradientAfter`; lengths that are not
/// known. Others: a table of more than kMaxTableCells entries; as for
/// alignRows.
llvm::Expected<BackwardChange> splitBackward(const TableView &table,
                                             const SplitOptions &options = {});

struct MergeOptions {
  /// The treatment of an I whose own W does not follow it (idle slots do not
  /// count), or if one of the two runs overlapped.
  Remainder apart = Remainder::Keep;
};

/// Replaces each I whose own W follows it by B, in the slots of both; idle
/// slots between the two move after it. A B sends the gradient at its end,
/// later than the I did. Rows without a deadlock stay so, but in an aligned
/// table a cell may now be too early for its gradient: then cells go to their
/// earliest slots (alignRows). If no split backwards are left, `gradientAfter`
/// is the default. Linear in entries. Errors, as ViolationError: backwards that
/// cannot be merged if the options refuse them; lengths that are not known.
/// Others: as for alignRows.
llvm::Expected<BackwardChange> mergeBackward(const TableView &table,
                                             const MergeOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_BACKWARD_H

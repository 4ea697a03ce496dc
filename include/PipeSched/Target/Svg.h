//===- Svg.h - Drawings of schedules as in papers ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Draws schedules as rows of coloured cells over slots or over time. All
// pictures of a module share one scale, so that lengths can be compared.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_SVG_H
#define PIPESCHED_TARGET_SVG_H

#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

enum class SvgVariant {
  Timed, ///< the timeline, with messages as thin bars below the rows
  Slots, ///< the table in its slots; for schedules only
  Rows   ///< all timelines in one: the rows of a worker are adjacent, in the
         ///< order of the headings
};

template <>
struct EnumNames<SvgVariant> {
  static constexpr EnumName<SvgVariant> values[] = {
      {SvgVariant::Timed, "timed", "the timeline"},
      {SvgVariant::Slots, "slots", "the table in its slots"},
      {SvgVariant::Rows, "rows",
       "the timelines, with the rows of each worker below each other"}};
};

/// Writes one picture per result, stacked. Errors, before anything is written:
/// a program with the variant Slots; a table that cannot be aligned.
llvm::Error writeSvg(llvm::raw_ostream &os,
                     llvm::ArrayRef<const NamedEvaluation *> results,
                     SvgVariant variant);
inline llvm::Error writeSvg(llvm::raw_ostream &os,
                            llvm::ArrayRef<NamedEvaluation> results,
                            SvgVariant variant) {
  return writeSvg(os, pointersTo(results), variant);
}

/// Writes pictures in slots, which need no costs. Errors, before anything is
/// written: a table that cannot be aligned.
llvm::Error writeSlotSvg(llvm::raw_ostream &os,
                         llvm::ArrayRef<const NamedTable *> tables);

} // namespace pipesched

#endif // PIPESCHED_TARGET_SVG_H
